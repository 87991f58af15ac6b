//! Where prediction and measurement part: along the critical path of what happened.
//!
//! The path is walked back from the last end. An instruction began when the one before it on its rank had ended or, if its rank waited for
//! a message, when that arrived; a message set out when the last of its members had issued it; a joint instruction ended when the last of
//! its members had joined. The steps of the path lie end to end from the start of the step to its end, and every end between two of them is
//! an end in the prediction too. So their differences add up to the error of the whole, exactly, and the largest of them are where it comes
//! from.

use pipezero_schedule::Lane;
use pipezero_schedule::simulate::Timeline;
use serde::Serialize;

use super::waits::was_waited_for;
use crate::recording::{Place, Recording, Shape};

/// A step of the critical path: an instruction, and how long it took from the end of the step before it, with whatever its
/// rank did in between.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parting {
    /// The world rank; of what several ranks do together, the one that came last.
    pub rank: usize,
    /// The position in its row.
    pub index: usize,
    /// What stands there.
    pub instruction: String,
    /// When it ended, measured, in nanoseconds from the start of the step.
    pub measured_end_ns: u64,
    /// The same end, predicted.
    pub predicted_end_ns: u64,
    /// How much longer it took than predicted, in nanoseconds; negative if less.
    pub later_ns: i64,
}

/// The critical path of a recorded step in the order of time, beside the same instructions of a prediction.
pub(super) fn critical(recording: &Recording<'_>, predicted: &Timeline) -> Vec<Parting> {
    let walk = Walk { recording, predicted };
    let mut path = Vec::new();
    let mut at = Some(walk.last());
    // No path is longer than everything that there is, each as a compute and as what it waited for.
    let steps_max = 2 * recording.places().count();
    while let Some(end) = at.filter(|_| path.len() < steps_max) {
        let (place, begin) = walk.back(&end);
        let [before, after] = [begin.map_or([0, 0], |begin| begin.at_ns), end.at_ns];
        let [predicted_ns, measured_ns] = [0, 1].map(|of| after[of] as i64 - before[of] as i64);
        path.push(Parting {
            rank: place.rank,
            index: place.index,
            instruction: place.instruction.to_string(),
            predicted_end_ns: after[0],
            measured_end_ns: after[1],
            later_ns: measured_ns - predicted_ns,
        });
        at = begin;
    }
    path.reverse();
    path
}

/// The steps of a path with the largest differences, still in the order of time.
pub(super) fn largest(path: Vec<Parting>, count: usize) -> Vec<Parting> {
    let mut numbered: Vec<(usize, Parting)> = path.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, parting)| std::cmp::Reverse(parting.later_ns.unsigned_abs()));
    numbered.truncate(count);
    numbered.sort_by_key(|&(position, _)| position);
    numbered.into_iter().map(|(_, parting)| parting).collect()
}

/// An end that prediction and measurement have in common: of a compute, or of a message, which was there.
#[derive(Clone, Copy, Debug)]
struct End {
    of: Place,
    /// Predicted, measured.
    at_ns: [u64; 2],
}

struct Walk<'a> {
    recording: &'a Recording<'a>,
    predicted: &'a Timeline,
}

impl Walk<'_> {
    /// The end of the rank that ended last: of the message that it waited for at its end, or else of its last compute.
    fn last(&self) -> End {
        let recording = self.recording;
        let rank = recording.ranks().max_by_key(|&rank| recording.end_ns(rank)).unwrap_or(0);
        let at_ns = [self.predicted.end(recording.pipeline_rank(rank)), recording.end_ns(rank)];
        let last = self.compute_before(rank, recording.row(rank).len()).expect("a step computes");
        let from_ns = recording.times(last).ended_ns;
        End { of: self.last_awaited(rank, from_ns, u64::MAX).unwrap_or(last), at_ns }
    }

    /// Whose work it was that ended there, and the end after which it began; `None` if that is the start of the step.
    fn back(&self, end: &End) -> (Place, Option<End>) {
        let place = self.last_member(end.of);
        let before = self.compute_before(place.rank, place.index);
        let waited_for = match self.recording.shape(place) {
            Shape::Message => None,
            Shape::Compute | Shape::Joint => {
                let from_ns = before.map_or(0, |before| self.recording.times(before).ended_ns);
                self.last_awaited(place.rank, from_ns, self.recording.times(place).started_ns)
            }
        };
        (place, waited_for.or(before).map(|of| self.end_of(of)))
    }

    /// The member of what several ranks do together that was ready last; of any other instruction, itself.
    fn last_member(&self, place: Place) -> Place {
        let done_ns = self.recording.done_ns(place);
        // A send can be done before its receiver reaches it.
        let has_started = |member: &Place| self.recording.times(*member).started_ns <= done_ns;
        let members = self.recording.members(place).into_iter().filter(has_started);
        members.max_by_key(|&member| self.recording.own_ready_ns(member)).unwrap_or(place)
    }

    /// The last instruction of the compute lane before an index of a row.
    fn compute_before(&self, rank: usize, index: usize) -> Option<Place> {
        let is_compute = |&index: &usize| self.recording.row(rank)[index].lane() == Lane::Compute;
        (0..index).rev().find(is_compute).map(|index| self.recording.place(rank, index))
    }

    /// The message that a rank waited for last between two times.
    fn last_awaited(&self, rank: usize, from_ns: u64, until_ns: u64) -> Option<Place> {
        let recording = self.recording;
        let is_between = |of: Place| {
            let times = recording.times(of);
            from_ns <= times.awaited_ns && times.ended_ns <= until_ns
        };
        let messages = recording.places_of(rank).filter(|of| recording.shape(*of) == Shape::Message);
        let waited_for = messages.filter(|&of| is_between(of) && was_waited_for(recording, of));
        waited_for.max_by_key(|&of| recording.times(of).arrived_ns)
    }

    fn end_of(&self, of: Place) -> End {
        let row = self.predicted.row(self.recording.pipeline_rank(of.rank));
        End { of, at_ns: [row[of.index].end, self.recording.done_ns(of)] }
    }
}
