//! The choice for ranks that share tied weights, or for one that shares none.

use super::candidates::are_all_tried;
use super::costs::{RankCosts, RankRow};
use super::options::{self, Choice};
use super::rank::Rank;
use super::upgrade;
use crate::role::UnitSharding;

/// Choices at most that are improved weight by weight: those that send the fewest bytes, and some of the others.
const STARTS_MAX: usize = 16;

/// What was chosen for a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankChoice {
    /// `[weight]`
    pub kinds: Vec<UnitSharding>,
    /// Its peak.
    pub peak_bytes: u64,
    /// Its peak with the choice for all ranks whose fullest rank is lowest, of those that were tried.
    pub least_peak_bytes: u64,
    /// Bytes that all of the ranks send with what was chosen for them.
    pub sent_bytes_of_all: u64,
}

/// What becomes of the weights of each rank. The ranks are those that share tied weights, or one that shares none; no rank needs more
/// than with everything whole, unless nothing else fits `memory_bytes`. One rank alone never needs more for it, since everything whole is
/// a choice; of two that share a tied weight one may, for the other.
///
/// With `memory_bytes` for each rank, the fewest bytes sent that fit, or the lowest peak where none does. Without: the lowest peak of
/// the fullest rank, then of all together, then the fewest bytes; or, if a choice sends at least a tenth less with no peak more than a
/// hundredth higher, the one of these that sends the fewest.
pub fn choose<R: RankRow>(ranks: &[RankCosts<R>], memory_bytes: Option<u64>) -> Vec<RankChoice> {
    let ranks: Vec<Rank<'_, R>> = ranks.iter().map(Rank::new).collect();
    let whole: Vec<u64> = ranks.iter().map(Rank::whole_peak_bytes).collect();
    let mut found = Found::within(&ranks, &whole, memory_bytes);
    if memory_bytes.is_some_and(|limit| found.chosen.fullest_bytes() > limit) && ranks.len() > 1 {
        found = Found::within(&ranks, &vec![u64::MAX; ranks.len()], memory_bytes);
    }
    let Found { lowest, chosen } = found;
    let sent_bytes_of_all = chosen.sent_bytes;
    let peaks = chosen.peak_bytes.into_iter().zip(lowest.peak_bytes);
    let of_rank = |(kinds, (peak_bytes, lowest)): (_, (u64, u64))| RankChoice {
        kinds,
        peak_bytes,
        least_peak_bytes: peak_bytes.min(lowest),
        sent_bytes_of_all,
    };
    chosen.kinds.into_iter().zip(peaks).map(of_rank).collect()
}

/// What was found among the choices with which no rank needs more than a bound.
struct Found {
    /// The choice whose fullest rank is lowest.
    lowest: Choice,
    chosen: Choice,
}

impl Found {
    fn within<R: RankRow>(ranks: &[Rank<'_, R>], most_bytes: &[u64], memory_bytes: Option<u64>) -> Self {
        let options = options::of_ranks(ranks, most_bytes, memory_bytes);
        let lowest = options
            .iter()
            .min_by_key(|option| (option.fullest_bytes(), option.sum_bytes(), option.sent_bytes));
        let lowest = lowest.expect("what is lowest is never left out").clone();
        let bounds = |bound: &dyn Fn(u64) -> u64| -> Vec<u64> {
            most_bytes.iter().zip(&lowest.peak_bytes).map(|(&most, &peak)| most.min(bound(peak))).collect()
        };
        let chosen = match memory_bytes {
            Some(limit_bytes) => cheapest(ranks, &options, &bounds(&|_| limit_bytes)),
            None => {
                let bounds = bounds(&|peak| peak.saturating_add(peak / 100));
                let saves =
                    |option: &Choice| 10 * u128::from(option.sent_bytes) <= 9 * u128::from(lowest.sent_bytes);
                cheapest(ranks, &options, &bounds).filter(saves)
            }
        };
        Self { chosen: chosen.unwrap_or_else(|| lowest.clone()), lowest }
    }
}

/// The choice within these bounds that sends the fewest bytes.
fn cheapest<R: RankRow>(ranks: &[Rank<'_, R>], options: &[Choice], bounds: &[u64]) -> Option<Choice> {
    let mut fitting: Vec<&Choice> = options.iter().filter(|option| option.fits(bounds)).collect();
    if !ranks.iter().all(are_all_tried) {
        fitting.sort_by_key(|option| option.sent_bytes);
        let step = fitting.len().div_ceil(STARTS_MAX).max(1);
        fitting = fitting.into_iter().step_by(step).collect();
    }
    let upgraded = fitting.into_iter().map(|option| upgrade::within(ranks, option, bounds));
    upgraded.min_by_key(|option| (option.sent_bytes, option.fullest_bytes(), option.sum_bytes()))
}
