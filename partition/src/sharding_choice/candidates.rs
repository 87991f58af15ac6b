//! The choices that are tried for a rank.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::costs::{RankRow, WeightCosts};
use super::rank::Rank;
use crate::role::UnitSharding;

/// Weights of a rank up to which every choice is tried.
pub const TRIED_WEIGHTS_MAX: usize = 8;

/// Kinds in the order in which equals are preferred.
const KINDS: [UnitSharding; 3] = [UnitSharding::Sharded, UnitSharding::Whole, UnitSharding::Persistent];

/// How many weights a choice may shard beside all those up to its size. Each of them is larger, and may need a gather buffer of
/// its own.
const LARGER_MAX: usize = 2;

/// At most so many sets of sharded weights are tried, each with at most so many sets of weights that are reduced after every
/// micro-batch.
const SETS_MAX: usize = 200;

/// The choices for a rank that are tried.
pub(super) fn of_rank<R: RankRow>(rank: &Rank<'_, R>) -> Vec<Vec<UnitSharding>> {
    let weights = &rank.costs.weights;
    let mut tried = if are_all_tried(rank) { all(weights) } else { up_to_some_size(weights) };
    tried.retain(|kinds| rank.allows(kinds));
    tried
}

/// Whether all choices for a rank are tried.
pub(super) fn are_all_tried<R: RankRow>(rank: &Rank<'_, R>) -> bool {
    free(&rank.costs.weights).len() <= TRIED_WEIGHTS_MAX
}

/// The weights about which there is something to choose.
fn free(weights: &[WeightCosts]) -> Vec<usize> {
    (0..weights.len()).filter(|&weight| !weights[weight].must_be_whole).collect()
}

fn all(weights: &[WeightCosts]) -> Vec<Vec<UnitSharding>> {
    let free = free(weights);
    let choice = |number: usize| {
        let mut kinds = vec![UnitSharding::Whole; weights.len()];
        for (digit, &weight) in free.iter().enumerate() {
            kinds[weight] = KINDS[number / KINDS.len().pow(digit as u32) % KINDS.len()];
        }
        kinds
    };
    (0..KINDS.len().pow(free.len() as u32)).map(choice).collect()
}

/// Each choice shards all weights up to a size and up to two larger ones. In the same way it chooses which are reduced after every
/// micro-batch; the others are whole.
fn up_to_some_size(weights: &[WeightCosts]) -> Vec<Vec<UnitSharding>> {
    let classes = classes(weights);
    let lens: Vec<usize> = classes.iter().map(Vec::len).collect();
    let sets = sets(&lens);
    let mut tried = Vec::new();
    for sharded in &sets {
        for reduced in sets.iter().filter(|reduced| sharded.iter().zip(*reduced).all(|(of, all)| of <= all)) {
            let mut kinds = vec![UnitSharding::Whole; weights.len()];
            for ((class, &sharded), &reduced) in classes.iter().zip(sharded).zip(reduced) {
                class[..reduced].iter().for_each(|&weight| kinds[weight] = UnitSharding::Persistent);
                class[..sharded].iter().for_each(|&weight| kinds[weight] = UnitSharding::Sharded);
            }
            tried.push(kinds);
        }
    }
    tried
}

/// The weights of equal costs, the largest first.
fn classes(weights: &[WeightCosts]) -> Vec<Vec<usize>> {
    let mut order = free(weights);
    let key = |&weight: &usize| {
        let WeightCosts { gathered_bytes, at_rest_bytes, sent_bytes, tied, .. } = &weights[weight];
        (Reverse(*gathered_bytes), *at_rest_bytes, *sent_bytes, tied.is_some())
    };
    // Tied weights by their numbers, so that both ranks take the same first ones.
    order.sort_by_key(|weight| (key(weight), weights[*weight].tied, *weight));
    order.chunk_by(|one, next| key(one) == key(next)).map(<[usize]>::to_vec).collect()
}

/// Sets of weights, as how many of each class: every class from some size down, and at most [`LARGER_MAX`] weights above it. Fewer
/// above, or only some of the sets, where there are many classes.
fn sets(lens: &[usize]) -> Vec<Vec<usize>> {
    // With n larger classes there are n ways to take one weight of them, and about n * n / 2 to take two.
    let num_sets = |larger_max: usize| (lens.len() + 1).pow(larger_max as u32 + 1);
    let larger_max = (0..=LARGER_MAX).rev().find(|&most| num_sets(most) <= 6 * SETS_MAX).unwrap_or(0);
    let mut sets = BTreeSet::new();
    for first in 0..=lens.len() {
        let (larger, smaller) = lens.split_at(first);
        sets.extend(few(larger, larger_max).into_iter().map(|larger| [&larger, smaller].concat()));
    }
    let (num_sets, step) = (sets.len(), sets.len().div_ceil(SETS_MAX));
    // The first has no weight, the last every one: both stay.
    let stays = |place: &usize| place.is_multiple_of(step) || place + 1 == num_sets;
    (0..).zip(sets).filter(|(place, _)| stays(place)).map(|(_, set)| set).collect()
}

/// All ways to take at most so many weights of these classes together.
fn few(lens: &[usize], most: usize) -> BTreeSet<Vec<usize>> {
    let mut all = BTreeSet::from([vec![0; lens.len()]]);
    for _ in 0..most {
        let one_more = |counts: &Vec<usize>| -> Vec<Vec<usize>> {
            let room = (0..lens.len()).filter(|&class| counts[class] < lens[class]);
            let more = |class: usize| {
                let mut counts = counts.clone();
                counts[class] += 1;
                counts
            };
            room.map(more).collect()
        };
        let more: Vec<_> = all.iter().flat_map(one_more).collect();
        all.extend(more);
    }
    all
}
