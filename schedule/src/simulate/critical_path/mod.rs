//! The critical path of a step: the chain of instructions that its time is made of, found from its last end
//! backwards.
//!
//! Each instruction of the chain starts as soon as the one before it lets it: the compute lane is free, what it needs
//! has ended, its message has arrived, the other end of a transfer is issued, its link is free, the last rank has
//! joined. So the parts have no gaps, and their times add up to the makespan exactly, for every timeline. Time that
//! none of these explains is the rank's own time for messages, which it issues and completes one after the
//! other; for a gather or reduction in a cluster of unlike data ranks it is the wait for another data rank.
//! The path stays on one data rank; a norm includes its wait for all ranks.
//!
//! Where several let an instruction start at the same moment, one chain is followed: the compute lane's before others.

use alloc::vec::Vec;

use super::costs::Costs;
use super::timeline::Timeline;
use crate::check::CheckedProgram;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::Activity;

mod causes;
mod rows;
mod why;

use causes::Causes;
pub use why::Why;

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The rank.
    pub rank: PipelineRank,
    /// The position of the instruction in the rank's row; of time before an instruction, that of the one that had to wait,
    /// which at the end of the row is the row's length.
    pub index: usize,
    /// When its part begins: with the end of the part before.
    pub start: u64,
    /// When its part ends. A message that another one waited for ends with its occupation of the link.
    pub end: u64,
    /// What it waited for last.
    pub why: Why,
}

/// What the time of a part went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spent {
    /// An instruction ran.
    On(Activity),
    /// The rank's own time for messages.
    Handling,
    /// Waits for other data ranks.
    DataRanks,
}

impl Spent {
    /// Its name in summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::On(activity) => activity.name(),
            Self::Handling => "own time for messages",
            Self::DataRanks => "waits for other data ranks",
        }
    }
}

/// The chain of instructions that determines how long a step takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    steps: Vec<PathStep>,
}

impl CriticalPath {
    /// The parts from the beginning of the step to its end, without gaps; what takes no time is left out.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// Times by what they went to, the longest first; they add up to the makespan.
    ///
    /// # Panics
    /// If the path is not of this program.
    pub fn summary(&self, program: &CheckedProgram) -> Vec<(Spent, u64)> {
        let mut summary: Vec<(Spent, u64)> = Vec::new();
        for step in &self.steps {
            let spent = match step.why {
                Why::Handling => Spent::Handling,
                Why::DataRanks => Spent::DataRanks,
                _ => Spent::On(program.row(step.rank)[step.index].activity()),
            };
            let time = step.end - step.start;
            match summary.iter_mut().find(|(of, _)| *of == spent) {
                Some((_, sum)) => *sum += time,
                None => summary.push((spent, time)),
            }
        }
        summary.sort_by_key(|&(spent, time)| (core::cmp::Reverse(time), spent));
        summary
    }
}

/// The critical path of a step. The timeline has the start and end of each instruction; the costs have how
/// long a message occupies its link and its ranks.
///
/// Time grows with the number of instructions.
///
/// # Panics
/// If costs or timeline are not of this program.
pub fn critical_path(program: &CheckedProgram, costs: &Costs, timeline: &Timeline) -> CriticalPath {
    let causes = Causes::new(program, costs, timeline);
    let mut steps = Vec::new();
    // The time from which on the path is explained.
    let mut until = timeline.makespan();
    let mut next = causes.of_end();
    while let Some(cause) = next {
        let InstructionId { rank, index } = cause.handled_at;
        let since = cause.time.min(until);
        let handled = since + causes.own_time(cause, until - since);
        push(&mut steps, PathStep { rank, index, start: handled, end: until, why: Why::DataRanks });
        push(&mut steps, PathStep { rank, index, start: since, end: handled, why: Why::Handling });
        until = since;
        next = cause.waited_for.map(|of| {
            let InstructionId { rank, index } = of;
            let cause = causes.of(of);
            let start = timeline.span(of).start.min(until);
            push(&mut steps, PathStep { rank, index, start, end: until, why: cause.why });
            until = start;
            cause
        });
    }
    steps.reverse();
    CriticalPath { steps }
}

fn push(steps: &mut Vec<PathStep>, step: PathStep) {
    if step.start < step.end {
        steps.push(step);
    }
}

#[cfg(test)]
mod tests;
