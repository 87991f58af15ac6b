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
    /// Its peak with the choice for all ranks whose fullest rank is lowest, of those that were tried.
    pub least_peak_bytes: u64,
}

/// What becomes of the weights of each rank. The ranks are those that share tied weights, or one that shares none; no rank needs more
/// than with everything whole.
///
/// With `memory_bytes` for each rank, the fewest bytes sent that fit, or the lowest peak where none does. Without: the lowest peak of
/// the fullest rank, then of all together, then the fewest bytes; or, if a choice sends at least a tenth less with no peak more than a
/// hundredth higher, the one of these that sends the fewest.
pub fn choose<R: RankRow>(ranks: &[RankCosts<R>], memory_bytes: Option<u64>) -> Vec<RankChoice> {
    let ranks: Vec<Rank<'_, R>> = ranks.iter().map(Rank::new).collect();
    let whole: Vec<u64> = ranks.iter().map(Rank::whole_peak_bytes).collect();
    let options = options::of_ranks(&ranks, &whole, memory_bytes);
    let lowest =
        options.iter().min_by_key(|option| (option.fullest_bytes(), option.sum_bytes(), option.sent_bytes));
    let lowest = lowest.expect("what is lowest is never left out").clone();
    let bounds = |bound: &dyn Fn(u64) -> u64| -> Vec<u64> {
        whole.iter().zip(&lowest.peak_bytes).map(|(&whole, &peak)| whole.min(bound(peak))).collect()
    };
    let cheapest = |bounds: &[u64]| {
        let mut fitting: Vec<&Choice> = options.iter().filter(|option| option.fits(bounds)).collect();
        if !ranks.iter().all(are_all_tried) {
            fitting.sort_by_key(|option| option.sent_bytes);
            let step = fitting.len().div_ceil(STARTS_MAX).max(1);
            fitting = fitting.into_iter().step_by(step).collect();
        }
        let upgraded = fitting.into_iter().map(|option| upgrade::within(&ranks, option, bounds));
        upgraded.min_by_key(|option| (option.sent_bytes, option.fullest_bytes(), option.sum_bytes()))
    };
    let least = lowest.peak_bytes.clone();
    let chosen = match memory_bytes {
        Some(limit_bytes) => cheapest(&bounds(&|_| limit_bytes)).unwrap_or(lowest),
        None => {
            let cheapest = cheapest(&bounds(&|peak| peak.saturating_add(peak / 100)));
            let saves =
                |option: &Choice| 10 * u128::from(option.sent_bytes) <= 9 * u128::from(lowest.sent_bytes);
            cheapest.filter(saves).unwrap_or(lowest)
        }
    };
    let least = least.into_iter().zip(&chosen.peak_bytes).map(|(lowest, &own)| own.min(lowest));
    let of_rank = |(kinds, least_peak_bytes)| RankChoice { kinds, least_peak_bytes };
    chosen.kinds.iter().cloned().zip(least).map(of_rank).collect()
}
