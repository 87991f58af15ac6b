//! Memory in use over time: what each rank's buffers hold, by category, from a program and when it ran.
//!
//! Between which instructions a buffer is held follows from the program; a timeline gives their times. So predicted
//! and measured timelines give curves in the same way. It shows what is *in use*: an executor that allocates all
//! buffers before the first step holds their full size all along, which is at least the peak of each category here.
//!
//! | what | category | from | until |
//! |---|---|---|---|
//! | a gathered copy | gathered | its `UNSHARD` starts | its `RESHARD` |
//! | an activation slot | activations | the stage's first `F` starts | its last reader ends: `B` or `W`, and the `SEND`; in an evaluation the next reader and the `SEND` |
//! | weight-gradient inputs | activations | the stage's first `I` starts | its last `W` ends |
//! | an unsharded gradient, reduced after every micro-batch | gradients | its `B` or `W` starts | its `REDUCE` ends |
//! | a message received | communication | its `RECV` starts | the compute that reads it ends |
//! | a gradient sent | communication | the compute that makes it starts | its `SEND` ends |
//!
//! Activations are sent out of their slots. All else is fixed: parameters, gradients and optimizer state at rest, gradients
//! that accumulate unsharded, workspaces. A buffer that is given back and one that is taken at the same moment may be the
//! same, so they are not counted twice.

use alloc::vec::Vec;

use super::timeline::Timeline;
use crate::check::CheckedProgram;

mod bytes;
mod holds;

pub use bytes::{MemoryBytes, MemoryCategory, MemoryCosts, MemoryError, UnitMemory};
use holds::{Holds, Moment};

/// What a rank holds over a step: constant between the points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryCurve {
    points: Vec<(u64, MemoryBytes)>,
    peak: (u64, MemoryBytes),
    peak_of_each: MemoryBytes,
}

impl MemoryCurve {
    fn new(at_rest: MemoryBytes, moments: &[Moment]) -> Self {
        let mut held = at_rest;
        let mut curve =
            Self { points: Vec::with_capacity(moments.len()), peak: (0, held), peak_of_each: held };
        curve.points.push((0, held));
        let mut of_one_time = moments.iter().peekable();
        while let Some(moment) = of_one_time.next() {
            moment.apply(&mut held);
            if of_one_time.peek().is_none_or(|next| next.time > moment.time) {
                curve.push(moment.time, held);
            }
        }
        curve
    }

    fn push(&mut self, time: u64, held: MemoryBytes) {
        self.points.pop_if(|(last, _)| *last == time);
        if self.points.last().is_none_or(|&(_, before)| before != held) {
            self.points.push((time, held));
        }
        if held.total() > self.peak.1.total() {
            self.peak = (time, held);
        }
        for category in MemoryCategory::ALL {
            self.peak_of_each[category] = self.peak_of_each[category].max(held[category]);
        }
    }

    /// From when on what is held, by time; the first from the start of the step.
    pub fn points(&self) -> &[(u64, MemoryBytes)] {
        &self.points
    }

    /// When the sum over all categories is largest for the first time, and what is held then.
    pub fn peak(&self) -> (u64, MemoryBytes) {
        self.peak
    }

    /// The most that is held of each category, not necessarily at one time.
    pub fn peak_of_each(&self) -> MemoryBytes {
        self.peak_of_each
    }
}

/// What each pipeline rank holds over a step that ran as the timeline says, `[rank]`.
///
/// Time grows with the number of instructions times its logarithm.
///
/// # Errors
/// [`MemoryError`] if the sizes are not of this program, or too large.
///
/// # Panics
/// If the timeline is not of this program.
pub fn memory(
    program: &CheckedProgram,
    timeline: &Timeline,
    costs: &MemoryCosts,
) -> Result<Vec<MemoryCurve>, MemoryError> {
    costs.check(program)?;
    let mut holds = Holds::new(program, timeline, costs);
    let ranks = program.ranks();
    ranks
        .map(|rank| {
            let at_rest = costs.fixed[rank.index()];
            let moments = holds.of_rank(rank);
            // Were all buffers taken at once, the sum would fit; so does every sum of fewer.
            let taken =
                moments.iter().filter(|moment| moment.takes).map(|moment| u128::from(moment.num_bytes));
            let total = taken.fold(at_rest.wide_total(), u128::saturating_add);
            if u64::try_from(total).is_err() {
                return Err(MemoryError::TooLarge { rank, total });
            }
            Ok(MemoryCurve::new(at_rest, moments))
        })
        .collect()
}

#[cfg(test)]
mod tests;
