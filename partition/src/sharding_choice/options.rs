//! Choices for ranks that share tied weights: one for each rank, with both uses of every tied weight alike.

use std::collections::BTreeMap;

use super::candidates;
use super::costs::{BufferBounds, RankRow};
use super::rank::{Cost, Rank};
use crate::role::UnitSharding;

/// A choice for all of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// `[rank][weight]`
    pub(super) kinds: Vec<Vec<UnitSharding>>,
    /// `[rank]`
    pub(super) peak_bytes: Vec<u64>,
    /// Of all ranks.
    pub(super) sent_bytes: u64,
}

impl Choice {
    pub(super) fn of<R: RankRow>(ranks: &[Rank<'_, R>], kinds: Vec<Vec<UnitSharding>>) -> Self {
        let costs: Vec<Cost> = ranks.iter().zip(&kinds).map(|(rank, kinds)| rank.cost(kinds)).collect();
        Self::new(kinds, &costs)
    }

    fn new(kinds: Vec<Vec<UnitSharding>>, costs: &[Cost]) -> Self {
        Self {
            kinds,
            peak_bytes: costs.iter().map(|cost| cost.peak_bytes).collect(),
            sent_bytes: costs.iter().map(|cost| cost.sent_bytes).fold(0, u64::saturating_add),
        }
    }

    pub(super) fn fullest_bytes(&self) -> u64 {
        self.peak_bytes.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn sum_bytes(&self) -> u128 {
        self.peak_bytes.iter().copied().map(u128::from).sum()
    }

    pub(super) fn fits(&self, bounds: &[u64]) -> bool {
        self.peak_bytes.iter().zip(bounds).all(|(peak, bound)| peak <= bound)
    }
}

/// What a rank chose for the tied weights that it shares, by their numbers.
type TiedKinds = Vec<(usize, UnitSharding)>;

/// A choice for one rank.
struct RankOption {
    kinds: Vec<UnitSharding>,
    cost: Cost,
}

/// The choices that are tried for the ranks together: none needs more than `most_bytes` on a rank, and none is left out that could be
/// chosen.
pub(super) fn of_ranks<R: RankRow>(
    ranks: &[Rank<'_, R>],
    most_bytes: &[u64],
    memory_bytes: Option<u64>,
) -> Vec<Choice> {
    let tried: Vec<Vec<TriedOption>> = ranks.iter().map(tried).collect();
    let horizons = horizons(&tried, most_bytes, memory_bytes);
    let by_rank = ranks.iter().zip(tried).zip(most_bytes.iter().zip(horizons));
    let by_rank: Vec<_> =
        by_rank.map(|((rank, tried), (&most, horizon))| of_rank(rank, tried, most, horizon)).collect();
    let Some((first, others)) = by_rank.split_first() else { return Vec::new() };
    let mut choices = Vec::new();
    for (tied, of_first) in first {
        let of_others: Option<Vec<&Vec<RankOption>>> = others.iter().map(|rank| rank.get(tied)).collect();
        let Some(of_others) = of_others else { continue };
        let mut chosen: Vec<Vec<&RankOption>> = of_first.iter().map(|own| vec![own]).collect();
        for of_rank in of_others {
            let mut with_rank = Vec::with_capacity(chosen.len() * of_rank.len());
            for before in &chosen {
                with_rank.extend(of_rank.iter().map(|own| [&before[..], &[own]].concat()));
            }
            chosen = with_rank;
        }
        choices.extend(chosen.into_iter().map(|ranks| {
            let costs: Vec<Cost> = ranks.iter().map(|rank| rank.cost).collect();
            Choice::new(ranks.iter().map(|rank| rank.kinds.clone()).collect(), &costs)
        }));
    }
    choices
}

/// A choice for one rank whose row is not planned yet.
struct TriedOption {
    kinds: Vec<UnitSharding>,
    tied: TiedKinds,
    /// Of the peak.
    bounds: BufferBounds,
}

fn tried<R: RankRow>(rank: &Rank<'_, R>) -> Vec<TriedOption> {
    let option = |kinds: Vec<UnitSharding>| {
        let weights = rank.costs.weights.iter().zip(&kinds);
        let mut tied: TiedKinds = weights.filter_map(|(weight, &kind)| Some((weight.tied?, kind))).collect();
        tied.sort_unstable();
        TriedOption { tied, bounds: rank.peak_bounds(&kinds), kinds }
    };
    candidates::of_rank(rank).into_iter().map(option).collect()
}

/// For each rank a peak beyond which nothing is chosen: neither the lowest, nor what is a hundredth higher, nor what fits
/// `memory_bytes`. It follows from the bounds of peaks alone, so that few rows are planned.
fn horizons(tried: &[Vec<TriedOption>], most_bytes: &[u64], memory_bytes: Option<u64>) -> Vec<u64> {
    // `[rank]`, by the kinds of tied weights: bounds of the lowest peak.
    let lowest: Vec<BTreeMap<&TiedKinds, BufferBounds>> =
        tried.iter().zip(most_bytes).map(|(tried, &most)| lowest(tried, most)).collect();
    let of_all = |tied: &TiedKinds, of: fn(&BufferBounds) -> u64| {
        let bounds = lowest.iter().map(|lowest| lowest.get(tied).map_or(u64::MAX, of));
        bounds.max().unwrap_or(u64::MAX)
    };
    let all_tied = || lowest.iter().flat_map(BTreeMap::keys).copied();
    // The fullest rank needs no more than this where it is lowest.
    let fullest = all_tied().map(|tied| of_all(tied, |bounds| bounds.most_bytes)).min().unwrap_or(u64::MAX);
    let may_be_lowest = |tied: &TiedKinds| of_all(tied, |bounds| bounds.least_bytes) <= fullest;
    let horizon = |lowest: &BTreeMap<&TiedKinds, BufferBounds>| {
        let own = lowest.iter().filter(|(tied, _)| may_be_lowest(tied)).map(|(_, bounds)| bounds.most_bytes);
        let own = own.max().unwrap_or(u64::MAX).min(fullest);
        own.saturating_add(own / 100).max(memory_bytes.unwrap_or(0))
    };
    lowest.iter().map(horizon).collect()
}

fn lowest(tried: &[TriedOption], most_bytes: u64) -> BTreeMap<&TiedKinds, BufferBounds> {
    let mut lowest: BTreeMap<&TiedKinds, BufferBounds> = BTreeMap::new();
    for TriedOption { tied, bounds, .. } in tried {
        let known =
            lowest.entry(tied).or_insert(BufferBounds { least_bytes: u64::MAX, most_bytes: u64::MAX });
        known.least_bytes = known.least_bytes.min(bounds.least_bytes);
        // What surely needs no more.
        if bounds.most_bytes <= most_bytes {
            known.most_bytes = known.most_bytes.min(bounds.most_bytes);
        }
    }
    lowest
}

/// The choices of one rank that could be chosen, by what they are for tied weights: peaks ascend and bytes sent descend.
fn of_rank<R: RankRow>(
    rank: &Rank<'_, R>,
    tried: Vec<TriedOption>,
    most_bytes: u64,
    horizon: u64,
) -> BTreeMap<TiedKinds, Vec<RankOption>> {
    let mut found: BTreeMap<TiedKinds, Vec<RankOption>> = BTreeMap::new();
    for TriedOption { kinds, tied, bounds } in tried {
        if bounds.least_bytes > horizon.min(most_bytes) {
            continue;
        }
        let cost = rank.cost(&kinds);
        if cost.peak_bytes <= most_bytes {
            found.entry(tied).or_default().push(RankOption { kinds, cost });
        }
    }
    found.values_mut().for_each(keep_undominated);
    found
}

/// Leaves out what needs and sends no less than another; of equals the first that was tried stays.
fn keep_undominated(options: &mut Vec<RankOption>) {
    options.sort_by_key(|option| (option.cost.peak_bytes, option.cost.sent_bytes));
    let mut fewest = None;
    options.retain(|option| {
        let sends_less = fewest.is_none_or(|fewest| option.cost.sent_bytes < fewest);
        if sends_less {
            fewest = Some(option.cost.sent_bytes);
        }
        sends_less
    });
}
