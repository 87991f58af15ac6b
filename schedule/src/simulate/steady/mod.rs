//! Long steps from short ones: a steady state is found, proved and extended.
//!
//! A generated step of many micro-batches is a start, a pattern that repeats every few micro-batches, and an end. Two
//! steps are played, the second longer by one repetition. If each instruction of the second ends when its counterpart in
//! the first does, later by what the repetition takes if it comes after it, then every further repetition does the same,
//! and the longest step takes what the first takes plus so many times the difference. Nothing is rounded or fitted: what
//! is extended is equal to what playing the whole step gives.
//!
//! Why two steps prove it for all. An instruction starts when the last of what it waits for has ended: the instruction
//! before it on its lane, its operands, its buffers. What lies near, within the window that both steps are compared on,
//! is the same in every repetition, and all of it is later by the same time, so that the start is too. What lies far, in
//! the start or in an earlier turn of the ranks (a breadth-first step turns to its next stage when all micro-batches are
//! through), gets farther by a whole repetition each time: an instruction that waited for none of it in both steps never
//! will. That a longer program extends the second as the second extended the first depends on generators and lowering; the
//! tests check it for every one of them, by playing the whole step too.
//!
//! A step without a steady state, or with one that repeats too rarely, is played in full.

mod played;
mod series;

use crate::check::CheckedProgram;
use crate::protocol::RECEIVE_BUFFERS;

use super::costs::{Costs, CostsError};
pub use played::Played;
use series::{Series, period, repeated};

/// Micro-batches of the first attempt, for each rank and one more: a warm-up and a cool-down take up to two, the window one.
const FIRST_ATTEMPT: u32 = 6;

/// The last attempt is at a step this many times shorter than the whole, so that a search that finds nothing costs
/// less than playing the whole.
const LAST_ATTEMPT: u32 = 8;

/// A step, played in full or extended from shorter ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongStep {
    /// The step itself, or a shorter one that is like it but for repetitions of its steady state.
    pub played: Played,
    /// What is left out of it, if anything.
    pub steady: Option<Steady>,
}

/// The steady state of a step that was not played in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Micro-batches after which everything repeats.
    pub(super) period: u32,
    /// Repetitions that the whole step has beyond those of the played one.
    pub(super) num_periods: u32,
    /// The step with one repetition more.
    next: Played,
}

impl LongStep {
    /// When everything has ended.
    pub fn makespan(&self) -> u64 {
        self.extended(|of| of.timeline.makespan())
    }

    /// The longest [`Timeline::rank_span`](crate::simulate::Timeline::rank_span).
    pub fn longest_rank_span(&self) -> u64 {
        let span = |rank| self.extended(|of| of.timeline.rank_span(&of.program, rank));
        self.played.program.ranks().map(span).max().unwrap_or(0)
    }

    /// A figure of the whole step that grows by the same amount with every repetition: times, counts, and peaks to
    /// which each repetition adds the same.
    pub fn extended(&self, figure: impl Fn(&Played) -> u64) -> u64 {
        let Some(steady) = &self.steady else { return figure(&self.played) };
        let (short, next) = (figure(&self.played), figure(&steady.next));
        // No repetition makes a figure smaller; the search has checked that the makespan, the largest time of all,
        // fits.
        short + u64::from(steady.num_periods) * (next - short)
    }
}

/// Plays a step of `num_micro_batches`. Where it has a steady state, that costs as much as two steps of about six
/// times as many micro-batches as ranks.
///
/// `make` gives the program of a step by its micro-batches: from one generator, with the same units and options whatever
/// their number. Costs are of units and edges, of which every such program has the same.
///
/// # Errors
/// What `make` returns, and [`CostsError`] as [`simulate`](crate::simulate::simulate); also if the whole step takes longer
/// than a `u64` can hold.
pub fn simulate_long<E: From<CostsError>>(
    make: impl Fn(u32) -> Result<CheckedProgram, E>,
    costs: &Costs,
    num_micro_batches: u32,
) -> Result<LongStep, E> {
    let num_ranks = make(1)?.num_ranks() as u32;
    let mut size = FIRST_ATTEMPT.saturating_mul(num_ranks.saturating_add(1));
    while size <= num_micro_batches / LAST_ATTEMPT {
        if let Some(step) = extend(&make, costs, num_micro_batches, size, num_ranks)? {
            return Ok(step);
        }
        size = size.saturating_mul(2);
    }
    Ok(LongStep { played: Played::new(make(num_micro_batches)?, costs)?, steady: None })
}

/// Looks for the steady state in a step of about `size` micro-batches.
fn extend<E: From<CostsError>>(
    make: &impl Fn(u32) -> Result<CheckedProgram, E>,
    costs: &Costs,
    num_micro_batches: u32,
    size: u32,
    num_ranks: u32,
) -> Result<Option<LongStep>, E> {
    // Most patterns repeat after as many micro-batches as ranks, or a part of that: then this step is the first already.
    let size = size + (num_micro_batches - size) % num_ranks;
    let mut short = Played::new(make(size)?, costs)?;
    let mut series = Series::of(&short);
    let Some(period) = period(&series, size) else { return Ok(None) };
    let left_over = (num_micro_batches - size) % period;
    let size = size + left_over;
    if left_over > 0 {
        short = Played::new(make(size)?, costs)?;
        series = Series::of(&short);
    }
    let next = Played::new(make(size + period)?, costs)?;
    // What one rank has to do with another lies at most so far back: a message waits for a buffer, and a rank for the
    // answer to what it sent.
    let window = period.max(num_ranks + RECEIVE_BUFFERS as u32);
    let longer = next.timeline.makespan().checked_sub(short.timeline.makespan());
    let period_time = repeated(&series, &Series::of(&next), period, window);
    let Some(period_time) = period_time.filter(|&time| longer == Some(time)) else { return Ok(None) };
    let num_periods = (num_micro_batches - size) / period;
    let total = u128::from(short.timeline.makespan()) + u128::from(num_periods) * u128::from(period_time);
    if total >= u128::from(u64::MAX) {
        return Err(CostsError::TooLong { total }.into());
    }
    let steady = Steady { period, num_periods, next };
    Ok(Some(LongStep { played: short, steady: Some(steady) }))
}

#[cfg(test)]
mod tests;
