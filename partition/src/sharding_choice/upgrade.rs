//! Improves a choice for ranks with many weights: what is sharded becomes persistent or whole where memory is left.

use super::candidates::are_all_tried;
use super::costs::RankRow;
use super::options::Choice;
use super::rank::Rank;
use crate::role::UnitSharding;

/// Rounds at most: each fills the memory that the one before it left by making buffers smaller.
const ROUNDS_MAX: usize = 8;

/// A weight of one rank, or of two that share it.
type Uses = Vec<(usize, usize)>;

/// Another kind for a weight.
struct Upgrade<'a> {
    uses: &'a Uses,
    kind: UnitSharding,
    saved_bytes: u64,
    /// `[rank]`: what it adds at rest.
    added_bytes: Vec<u64>,
}

impl Upgrade<'_> {
    /// Bytes saved for each byte held.
    fn value(&self) -> f64 {
        let added: f64 = self.added_bytes.iter().map(|&bytes| bytes as f64).sum();
        self.saved_bytes as f64 / added.max(1.0)
    }
}

/// The choice, or one that sends less within these bounds; where all choices were tried, the choice itself.
pub(super) fn within<R: RankRow>(ranks: &[Rank<'_, R>], choice: &Choice, bounds: &[u64]) -> Choice {
    let mut best = choice.clone();
    if ranks.iter().all(are_all_tried) {
        return best;
    }
    let uses = uses(ranks);
    for _ in 0..ROUNDS_MAX {
        let Some(better) = upgraded(ranks, &best, bounds, &uses) else { break };
        best = better;
    }
    best
}

/// The weights of all ranks, those that two ranks share once.
fn uses<R>(ranks: &[Rank<'_, R>]) -> Vec<Uses> {
    let mut uses: Vec<(Option<usize>, Uses)> = Vec::new();
    for (index, rank) in ranks.iter().enumerate() {
        for (weight, costs) in rank.costs.weights.iter().enumerate() {
            let known = uses.iter_mut().find(|(tied, _)| tied.is_some() && *tied == costs.tied);
            match known {
                Some((_, uses)) => uses.push((index, weight)),
                None => uses.push((costs.tied, vec![(index, weight)])),
            }
        }
    }
    uses.into_iter().map(|(_, uses)| uses).collect()
}

/// The choice after one round: the most valuable upgrades that fit beside the buffers as they are.
fn upgraded<R: RankRow>(
    ranks: &[Rank<'_, R>],
    choice: &Choice,
    bounds: &[u64],
    uses: &[Uses],
) -> Option<Choice> {
    let mut upgrades = upgrades(ranks, choice, uses);
    upgrades.sort_by(|a, b| b.value().total_cmp(&a.value()));
    let mut room: Vec<u64> =
        bounds.iter().zip(&choice.peak_bytes).map(|(bound, peak)| bound - peak).collect();
    let mut kinds = choice.kinds.clone();
    for upgrade in upgrades {
        let fits = upgrade.added_bytes.iter().zip(&room).all(|(added, room)| added <= room);
        let is_first =
            upgrade.uses.iter().all(|&(rank, weight)| kinds[rank][weight] == choice.kinds[rank][weight]);
        if !fits || !is_first {
            continue;
        }
        let before = kinds.clone();
        upgrade.uses.iter().for_each(|&(rank, weight)| kinds[rank][weight] = upgrade.kind);
        if ranks.iter().zip(&kinds).all(|(rank, kinds)| rank.allows(kinds)) {
            room.iter_mut().zip(&upgrade.added_bytes).for_each(|(room, added)| *room -= added);
        } else {
            kinds = before;
        }
    }
    // With fewer sharded units the residency plan may take other buffers or gather a unit more often, so the estimate is checked.
    // It is rarely wrong.
    let upgraded = Choice::of(ranks, kinds);
    (upgraded.sent_bytes < choice.sent_bytes && upgraded.fits(bounds)).then_some(upgraded)
}

/// Every other kind of a weight with which fewer bytes are sent.
fn upgrades<'a, R: RankRow>(ranks: &[Rank<'_, R>], choice: &Choice, uses: &'a [Uses]) -> Vec<Upgrade<'a>> {
    let gathers: Vec<_> = ranks.iter().zip(&choice.kinds).map(|(rank, kinds)| rank.gathers(kinds)).collect();
    let mut upgrades = Vec::new();
    for uses in uses {
        for kind in [UnitSharding::Persistent, UnitSharding::Whole] {
            let (mut before, mut after) = (0u64, 0u64);
            let mut added_bytes = vec![0; ranks.len()];
            for &(rank, weight) in uses {
                let costs = &ranks[rank].costs.weights[weight];
                let own = choice.kinds[rank][weight];
                let gathered =
                    if own == UnitSharding::Sharded { gathers[rank].sent_bytes[weight] } else { 0 };
                before = before.saturating_add(costs.sent_bytes[own as usize]).saturating_add(gathered);
                after = after.saturating_add(costs.sent_bytes[kind as usize]);
                let [held, would_hold] = [own, kind].map(|kind| costs.at_rest_bytes[kind as usize]);
                added_bytes[rank] = would_hold.saturating_sub(held);
            }
            if after < before {
                upgrades.push(Upgrade { uses, kind, saved_bytes: before - after, added_bytes });
            }
        }
    }
    upgrades
}
