//! Choices for ranks that share tied weights: one for each rank, with both uses of every tied weight alike.

use std::collections::BTreeMap;

use super::candidates;
use super::costs::RankRow;
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
type OfTied = Vec<(usize, UnitSharding)>;

struct OfRank {
    kinds: Vec<UnitSharding>,
    cost: Cost,
}

/// The choices that are tried for the ranks together: none needs more than its bound, and none is left out unless another
/// needs and sends no more on every rank, with the same kinds of tied weights.
pub(super) fn of_ranks<R: RankRow>(ranks: &[Rank<'_, R>], bounds: &[u64]) -> Vec<Choice> {
    let by_rank: Vec<_> = ranks.iter().zip(bounds).map(|(rank, &bound)| of_rank(rank, bound)).collect();
    let Some((first, others)) = by_rank.split_first() else { return Vec::new() };
    let mut choices = Vec::new();
    for (of_tied, of_first) in first {
        let fronts: Option<Vec<&Vec<OfRank>>> = others.iter().map(|rank| rank.get(of_tied)).collect();
        let Some(fronts) = fronts else { continue };
        let mut chosen: Vec<Vec<&OfRank>> = of_first.iter().map(|own| vec![own]).collect();
        for front in fronts {
            let mut with_front = Vec::with_capacity(chosen.len() * front.len());
            for before in &chosen {
                with_front.extend(front.iter().map(|own| [&before[..], &[own]].concat()));
            }
            chosen = with_front;
        }
        choices.extend(chosen.into_iter().map(|ranks| Choice {
            kinds: ranks.iter().map(|rank| rank.kinds.clone()).collect(),
            peak_bytes: ranks.iter().map(|rank| rank.cost.peak_bytes).collect(),
            sent_bytes: ranks.iter().map(|rank| rank.cost.sent_bytes).fold(0, u64::saturating_add),
        }));
    }
    choices
}

/// The choices of one rank within its bound, by what they are for tied weights: peaks ascend and bytes sent descend.
fn of_rank<R: RankRow>(rank: &Rank<'_, R>, bound: u64) -> BTreeMap<OfTied, Vec<OfRank>> {
    let mut found: BTreeMap<OfTied, Vec<OfRank>> = BTreeMap::new();
    for kinds in candidates::of_rank(rank) {
        let cost = rank.cost(&kinds);
        if cost.peak_bytes > bound {
            continue;
        }
        let tied = rank.costs.weights.iter().zip(&kinds);
        let mut of_tied: OfTied = tied.filter_map(|(weight, &kind)| Some((weight.tied?, kind))).collect();
        of_tied.sort_unstable();
        found.entry(of_tied).or_default().push(OfRank { kinds, cost });
    }
    for choices in found.values_mut() {
        // Stable, so that of equals the first that is tried stays.
        choices.sort_by_key(|choice| (choice.cost.peak_bytes, choice.cost.sent_bytes));
        let mut fewest = None;
        choices.retain(|choice| {
            let sends_less = fewest.is_none_or(|fewest| choice.cost.sent_bytes < fewest);
            if sends_less {
                fewest = Some(choice.cost.sent_bytes);
            }
            sends_less
        });
    }
    found
}
