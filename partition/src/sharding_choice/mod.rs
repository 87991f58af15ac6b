//! Which weights are sharded, persistent and whole: the fewest bytes sent that fit, or the lowest peak.
//!
//! A weight that stays whole takes memory and saves messages, and it makes buffers smaller where it was the largest in them. So what
//! a choice costs is not a sum over weights:
//!
//! ```text
//! peak = fixed + sum at rest(weight, its kind) + gather buffers(those sharded) + gradient buffers(those not whole)
//! sent = fixed + sum sent(weight, its kind)    + gathers(those sharded)
//! ```
//!
//! | kind | at rest | messages of a step |
//! |---|---|---|
//! | sharded | shards | gathers before uses; a reduction after every micro-batch |
//! | persistent | whole weights, shards of gradients | one gather; a reduction after every micro-batch |
//! | whole | whole weights and gradients | one gather, one reduction |
//!
//! Ranks share no memory and no messages but for a tied weight, whose two uses are alike: ranks that share one are chosen for
//! together. Where every rank has at most [`TRIED_WEIGHTS_MAX`] weights, all choices are tried; both kinds of buffers depend on two
//! marks per weight, so of `3^n` choices only `2^n` rows are planned. A rank with more has many that are alike (slices of a
//! vocabulary, transformer blocks), and buffers are as large as their largest weights. There only choices are tried that take weights up to some size
//! and a few larger ones; the best of these is then improved weight by weight, in order of bytes saved for each byte of memory.
//!
//! Rejected: one threshold of size, as DeepSpeed has it, which cannot say that a large table stays whole while small blocks
//! are sharded; and integer programming, for which buffers would have to be linear.

mod candidates;
mod options;
mod rank;
mod upgrade;

#[cfg(test)]
mod tests;

use options::Choice;
use rank::Rank;

use crate::role::UnitSharding;

/// Weights of a rank up to which every choice is tried.
pub const TRIED_WEIGHTS_MAX: usize = 8;

/// Choices at most that are improved weight by weight: those that send the fewest bytes, and some of the others.
const STARTS_MAX: usize = 16;

/// One weight of a rank: a unit, or both uses of a tied weight if both are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightCosts {
    /// Bytes of the gathered weight.
    pub gathered_bytes: u64,
    /// `[kind]`: bytes that the rank holds of it between uses, by [`UnitSharding`]; buffers are not counted.
    pub at_rest_bytes: [u64; 3],
    /// `[kind]`: bytes that the rank sends for it in a step; gathers before uses are not counted.
    pub sent_bytes: [u64; 3],
    /// The number of the tied weight whose other use is on another rank, if it is one.
    pub tied: Option<usize>,
}

/// What a rank gathers if some of its weights are sharded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherCosts {
    /// Bytes of all gather buffers.
    pub buffer_bytes: u64,
    /// `[weight]`: bytes that the rank sends in its gathers before uses.
    pub sent_bytes: Vec<u64>,
}

/// A rank's row of a program, asked what it would need for other choices.
pub trait RankRow {
    /// Gathers if these weights are sharded: an entry for each weight.
    fn gathers(&self, is_sharded: &[bool]) -> GatherCosts;

    /// Bytes of all gradient buffers if these weights' gradients are reduced after every micro-batch.
    fn gradient_buffer_bytes(&self, is_reduced_often: &[bool]) -> u64;
}

/// What is to be chosen for one rank.
#[derive(Clone, Debug)]
pub struct RankCosts<R> {
    /// Its weights.
    pub weights: Vec<WeightCosts>,
    /// Bytes that it holds whatever is chosen.
    pub fixed_peak_bytes: u64,
    /// Bytes that it sends whatever is chosen.
    pub fixed_sent_bytes: u64,
    /// Whether all of its weights may be persistent.
    pub may_all_persist: bool,
    /// Its row.
    pub row: R,
}

/// For each rank the kinds of its weights. The ranks are those that share tied weights, or one that shares none; no rank needs more
/// than with everything whole.
///
/// With `memory_bytes` for each rank, the fewest bytes sent that fit, or the lowest peak where none does. Without: the lowest peak of
/// the fullest rank, then of all together, then the fewest bytes; or, if a choice sends at least a tenth less with no peak more than a
/// hundredth higher, the one of these that sends the fewest.
pub fn choose<R: RankRow>(ranks: &[RankCosts<R>], memory_bytes: Option<u64>) -> Vec<Vec<UnitSharding>> {
    let ranks: Vec<Rank<'_, R>> = ranks.iter().map(Rank::new).collect();
    let whole: Vec<u64> = ranks.iter().map(Rank::whole_peak_bytes).collect();
    let options = options::of_ranks(&ranks, &whole);
    let lowest =
        options.iter().min_by_key(|option| (option.fullest_bytes(), option.sum_bytes(), option.sent_bytes));
    let lowest = lowest.expect("everything whole is an option").clone();
    let bounds = |bound: &dyn Fn(u64) -> u64| -> Vec<u64> {
        whole.iter().zip(&lowest.peak_bytes).map(|(&whole, &peak)| whole.min(bound(peak))).collect()
    };
    let cheapest = |bounds: &[u64]| {
        let mut fitting: Vec<&Choice> = options.iter().filter(|option| option.fits(bounds)).collect();
        if !ranks.iter().all(Rank::is_small) {
            fitting.sort_by_key(|option| option.sent_bytes);
            let step = fitting.len().div_ceil(STARTS_MAX).max(1);
            fitting = fitting.into_iter().step_by(step).collect();
        }
        let upgraded = fitting.into_iter().map(|option| upgrade::within(&ranks, option, bounds));
        upgraded.min_by_key(|option| (option.sent_bytes, option.fullest_bytes(), option.sum_bytes()))
    };
    let chosen = match memory_bytes {
        Some(limit_bytes) => cheapest(&bounds(&|_| limit_bytes)).unwrap_or(lowest),
        None => {
            let cheapest = cheapest(&bounds(&|peak| peak.saturating_add(peak / 100)));
            let saves =
                |option: &Choice| 10 * u128::from(option.sent_bytes) <= 9 * u128::from(lowest.sent_bytes);
            cheapest.filter(saves).unwrap_or(lowest)
        }
    };
    chosen.kinds
}
