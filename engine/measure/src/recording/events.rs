//! From the events of a rank to the times of its instructions.

use pipezero_run::executor::{EventKind, RecordedEvent};

use super::fault::Fault;
use super::place::Place;
use super::times::{Shape, Times};

/// What was recorded of an instruction: when each event of [`EventKind::ALL`] happened, if it did.
pub(crate) type EventTimes = [Option<u64>; EventKind::ALL.len()];

/// The times of a row of `len` instructions; `of` says what stands at an index, and how that runs.
pub(crate) fn times_of_events(
    events: &[RecordedEvent],
    origin_ns: u64,
    len: usize,
    of: impl Fn(usize) -> (Place, Shape),
) -> Result<Vec<Times>, Fault> {
    let mut recorded = vec![EventTimes::default(); len];
    for &RecordedEvent { index, kind, at_ns } in events {
        if recorded[index][kind as usize].replace(at_ns - origin_ns).is_some() {
            return Err(Fault::Twice { place: of(index).0, event: kind.name() });
        }
    }
    let times = |(index, recorded)| {
        let (place, shape) = of(index);
        Times::of_event_times(place, shape, recorded)
    };
    recorded.iter().enumerate().map(times).collect()
}

impl Times {
    /// The times of an instruction, if it has all events of its shape, in their order, and no others.
    pub(crate) fn of_event_times(place: Place, shape: Shape, recorded: &EventTimes) -> Result<Self, Fault> {
        let (mut before, mut filled) = (EventKind::Started, [0; EventKind::ALL.len()]);
        for kind in EventKind::ALL {
            let before_ns = filled[before as usize];
            filled[kind as usize] = match (recorded[kind as usize], shape.events().contains(&kind)) {
                (None, false) => before_ns,
                (None, true) => return Err(Fault::Missing { place, event: kind.name() }),
                (Some(_), false) => return Err(Fault::Unexpected { place, event: kind.name() }),
                (Some(at_ns), true) if at_ns < before_ns => {
                    let events = [before, kind].map(EventKind::name);
                    return Err(Fault::Backwards { place, events, at_ns: [before_ns, at_ns] });
                }
                (Some(at_ns), true) => {
                    before = kind;
                    at_ns
                }
            };
        }
        Ok(filled.into())
    }

    /// When each event happened that an instruction of a shape has.
    pub(crate) fn event_times(self, shape: Shape) -> EventTimes {
        let Self { started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns } = self;
        let times = [started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns];
        EventKind::ALL.map(|kind| shape.events().contains(&kind).then_some(times[kind as usize]))
    }
}

#[cfg(test)]
mod tests {
    use pipezero_schedule::{Instruction, Unit};

    use super::*;

    #[test]
    fn events_of_several_instructions_are_sorted_out() {
        use EventKind::{Arrived, Awaited, Ended, Issued, Started};
        let message_and_compute = [(0, Started, 10), (0, Issued, 12), (1, Started, 13), (1, Ended, 20)];
        let end_of_message = [(0, Awaited, 21), (0, Arrived, 30), (0, Ended, 33)];
        let joint = [(2, Started, 33), (2, Awaited, 40), (2, Ended, 41)];
        let events = [&message_and_compute[..], &end_of_message, &joint].concat();
        let event = |(index, kind, at_ns)| RecordedEvent { index, kind, at_ns };
        let events: Vec<RecordedEvent> = events.into_iter().map(event).collect();
        let instruction = Instruction::OptimizerStep { unit: Unit(0) };
        let shapes = [Shape::Message, Shape::Compute, Shape::Joint];
        let row =
            times_of_events(&events, 10, 3, |index| (Place { rank: 0, index, instruction }, shapes[index]));
        let expected = [[0, 2, 11, 20, 23], [3, 3, 3, 3, 10], [23, 23, 30, 30, 31]].map(Times::from);
        assert_eq!(row.unwrap(), expected);
        let [message, compute, _] = expected;
        assert_eq!((message.issue_ns(), message.completion_ns(), compute.duration_ns()), (2, 3, 7));
        for (times, shape) in expected.into_iter().zip(shapes) {
            let place = Place { rank: 0, index: 0, instruction };
            assert_eq!(Times::of_event_times(place, shape, &times.event_times(shape)), Ok(times));
        }
    }
}
