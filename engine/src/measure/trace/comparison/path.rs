//! Where prediction and measurement part: along the critical path of what happened.
//!
//! The path is walked back from the last end: an instruction began when the one before it on its rank had ended or, where
//! its rank stood still for a message, when that arrived; a message set out when the last of its members had issued it; a
//! meeting ended when the last of its members had joined. Its steps lie end to end from the start of the step to its end,
//! and every end between two of them is an end in the prediction too. So the differences of the steps add up to the error
//! of the whole, exactly, and the largest of them are where it comes from.

use pipezero_schedule::simulate::Timeline;
use pipezero_schedule::{CheckedProgram, Lane, PipelineRank};
use serde::Serialize;

use super::super::members::{Site, members};
use super::super::moments::{MessageMoments, Moments};
use super::super::observed::was_waited_for;
use super::super::recorded::Recorded;

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
pub(in crate::measure::trace) fn critical(
    program: &CheckedProgram,
    recorded: &Recorded,
    predicted: &Timeline,
) -> Vec<Parting> {
    let walk = Walk { program, recorded, predicted };
    let mut path = Vec::new();
    let mut at = Some(walk.last());
    // No path is longer than everything that there is, each as a compute and as what it waited for.
    let steps_max = 2 * recorded.sites().count();
    while let Some(end) = at.filter(|_| path.len() < steps_max) {
        let (site, begin) = walk.back(&end);
        let [before, after] = [begin.map_or([0, 0], |begin| begin.at_ns), end.at_ns];
        let [predicted_ns, measured_ns] = [0, 1].map(|of| after[of] as i64 - before[of] as i64);
        path.push(Parting {
            rank: site.rank,
            index: site.index,
            instruction: site.instruction(program).to_string(),
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

/// An end that prediction and measurement have in common.
#[derive(Clone, Copy, Debug)]
struct End {
    what: Ended,
    /// Predicted, measured.
    at_ns: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    /// An instruction of the compute lane.
    Compute(Site),
    /// A message, which was there.
    Message(Site),
}

struct Walk<'a> {
    program: &'a CheckedProgram,
    recorded: &'a Recorded,
    predicted: &'a Timeline,
}

impl Walk<'_> {
    /// The end of the rank that ended last: of the message that it stood still for at its end, or else of its last compute.
    fn last(&self) -> End {
        let grid = self.recorded.grid();
        let rank = (0..grid.world_size()).max_by_key(|&rank| self.recorded.end_ns(rank)).unwrap_or(0);
        let pipeline_rank = PipelineRank(grid.pipeline_rank(rank) as u32);
        let at_ns = [self.predicted.end(pipeline_rank), self.recorded.end_ns(rank)];
        let behind = Site::new(grid, rank, self.recorded.row(rank).len());
        let last = self.compute_before(behind).expect("a step computes");
        let from_ns = self.recorded.moments(last).ended_ns();
        match self.stood_still_for(rank, from_ns, u64::MAX) {
            Some(message) => End { what: Ended::Message(message), at_ns },
            None => End { what: Ended::Compute(last), at_ns },
        }
    }

    /// Whose work it was that ended there, and the end after which it began; `None` if that is the start of the step.
    fn back(&self, end: &End) -> (Site, Option<End>) {
        match end.what {
            Ended::Message(message) => {
                let issuer = self.last_member(message);
                (issuer, self.compute_before(issuer).map(|before| self.end_of(before)))
            }
            Ended::Compute(compute) => {
                let site = self.last_member(compute);
                let before = self.compute_before(site);
                let from_ns = before.map_or(0, |before| self.recorded.moments(before).ended_ns());
                let until_ns = self.recorded.moments(site).started_ns();
                let waited_for = self.stood_still_for(site.rank, from_ns, until_ns);
                let begin = waited_for.map(|message| End {
                    what: Ended::Message(message),
                    at_ns: [self.predicted_end_ns(message), self.message(message).arrived_ns],
                });
                (site, begin.or_else(|| before.map(|before| self.end_of(before))))
            }
        }
    }

    /// The member of what several ranks do together that came last; of any other instruction, itself.
    fn last_member(&self, site: Site) -> Site {
        let came_ns = |site: &Site| match self.recorded.moments(*site) {
            Moments::Compute { started_ns, .. } => *started_ns,
            Moments::Meeting { joined_ns, .. } => *joined_ns,
            Moments::Message(message) => message.issued_ns,
        };
        let done_ns = match self.recorded.moments(site) {
            Moments::Message(message) => message.arrived_ns,
            Moments::Compute { ended_ns, .. } | Moments::Meeting { ended_ns, .. } => *ended_ns,
        };
        // A send can be done before its receiver comes to it.
        let members = members(self.program, self.recorded.grid(), site).into_iter();
        let members = members.filter(|&member| self.recorded.moments(member).started_ns() <= done_ns);
        members.max_by_key(came_ns).unwrap_or(site)
    }

    /// The last instruction of the compute lane before a position of its row.
    fn compute_before(&self, site: Site) -> Option<Site> {
        let computes = |&index: &usize| site.at(index).instruction(self.program).lane() == Lane::Compute;
        (0..site.index).rev().find(computes).map(|index| site.at(index))
    }

    /// The message that a rank stood still for last between two moments.
    fn stood_still_for(&self, rank: usize, from_ns: u64, until_ns: u64) -> Option<Site> {
        let grid = self.recorded.grid();
        let messages = self.recorded.row(rank).iter().enumerate().filter_map(|(index, moments)| {
            let message = moments.message()?;
            let site = Site::new(grid, rank, index);
            let is_between = from_ns <= message.awaited_ns && message.ended_ns <= until_ns;
            let stood_still =
                is_between && was_waited_for(message, self.recorded.sets_out(self.program, site).1);
            stood_still.then_some((message.arrived_ns, site))
        });
        messages.max_by_key(|&(arrived_ns, _)| arrived_ns).map(|(_, site)| site)
    }

    fn end_of(&self, compute: Site) -> End {
        let at_ns = [self.predicted_end_ns(compute), self.recorded.moments(compute).ended_ns()];
        End { what: Ended::Compute(compute), at_ns }
    }

    fn predicted_end_ns(&self, site: Site) -> u64 {
        self.predicted.row(site.pipeline_rank)[site.index].end
    }

    fn message(&self, site: Site) -> &MessageMoments {
        self.recorded.moments(site).message().expect("a rank stands still for messages alone")
    }
}
