//! The moments of an instruction, put together from the events of its rank.

use crate::run::executor::{Event, EventKind};

/// When what happened to one instruction, in nanoseconds of the recording's clock. Each is no earlier than the one before;
/// what does not happen to an instruction of its lane is as early as it can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Instants {
    /// The row came to it.
    pub(super) started: u64,
    /// It was under way and the row went on.
    pub(super) issued: u64,
    /// The row began to wait for it.
    pub(super) awaited: u64,
    /// It was there.
    pub(super) arrived: u64,
    /// The row went on with what it brought.
    pub(super) ended: u64,
}

impl Instants {
    /// The rank's own time to issue it.
    pub(super) fn issue(self) -> u64 {
        self.issued - self.started
    }

    /// The rank's own time to take it in.
    pub(super) fn landing(self) -> u64 {
        self.ended - self.arrived
    }

    /// From start to end.
    pub(super) fn duration(self) -> u64 {
        self.ended - self.started
    }
}

/// The instructions of a row of `len`, by their place in it, from all that was recorded of one step.
///
/// # Panics
/// If the events are not of a whole step of such a row.
pub(super) fn of_row(events: &[Event], len: usize) -> Vec<Instants> {
    let mut row = vec![None; len];
    for &Event { index, kind, at_ns } in events {
        let instants: &mut Option<Instants> = &mut row[index];
        // Whatever follows is no earlier, so that times of no event are those of the last one.
        *instants = Some(match (kind, *instants) {
            (EventKind::Started, None) => {
                Instants { started: at_ns, issued: at_ns, awaited: at_ns, arrived: at_ns, ended: at_ns }
            }
            (EventKind::Issued, Some(so_far)) => {
                Instants { issued: at_ns, awaited: at_ns, arrived: at_ns, ended: at_ns, ..so_far }
            }
            (EventKind::Awaited, Some(so_far)) => {
                Instants { awaited: at_ns, arrived: at_ns, ended: at_ns, ..so_far }
            }
            (EventKind::Arrived, Some(so_far)) => Instants { arrived: at_ns, ended: at_ns, ..so_far },
            (EventKind::Ended, Some(so_far)) => Instants { ended: at_ns, ..so_far },
            (kind, _) => unreachable!("an instruction starts once, before it is {kind:?}"),
        });
    }
    let ended = |instants: Option<Instants>| instants.expect("a rank that ended its step ran its whole row");
    row.into_iter().map(ended).collect()
}

/// From the first start in any row to the last end in any; 0 of empty rows.
pub(super) fn makespan(rows: &[Vec<Instants>]) -> u64 {
    let instants = || rows.iter().flatten();
    let first = instants().map(|instants| instants.started).min();
    let last = instants().map(|instants| instants.ended).max();
    last.zip(first).map_or(0, |(last, first)| last - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_several_instructions_are_sorted_out() {
        use EventKind::{Arrived, Awaited, Ended, Issued, Started};
        let events = [
            (0, Started, 10),
            (0, Issued, 12),
            (1, Started, 13),
            (1, Ended, 20),
            (0, Awaited, 21),
            (0, Arrived, 30),
            (0, Ended, 33),
            (2, Started, 33),
            (2, Awaited, 40),
            (2, Ended, 41),
        ];
        let events = events.map(|(index, kind, at_ns)| Event { index, kind, at_ns });
        let row = of_row(&events, 3);
        let message = Instants { started: 10, issued: 12, awaited: 21, arrived: 30, ended: 33 };
        let compute = Instants { started: 13, issued: 13, awaited: 13, arrived: 13, ended: 20 };
        let meeting = Instants { started: 33, issued: 33, awaited: 40, arrived: 40, ended: 41 };
        assert_eq!(row, [message, compute, meeting]);
        assert_eq!((message.issue(), message.landing(), compute.duration()), (2, 3, 7));
    }
}
