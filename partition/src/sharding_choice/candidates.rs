//! The choices that are tried for a rank.

use std::collections::BTreeSet;

use super::costs::{RankRow, WeightCosts};
use super::rank::Rank;
use crate::role::UnitSharding;

/// Weights of a rank up to which every choice is tried.
pub const TRIED_WEIGHTS_MAX: usize = 8;

/// Kinds in the order in which equals are preferred.
const KINDS: [UnitSharding; 3] = [UnitSharding::Sharded, UnitSharding::Whole, UnitSharding::Persistent];

/// Weights larger than all others of their mark that a choice may have: more would each need a buffer as large.
const LARGER_MAX: usize = 2;

/// Ways to mark weights that are tried at most, each for gathers with each for gradients.
const MARKS_MAX: usize = 200;

/// The choices for a rank that are tried: all, or where it has many weights, those whose marks are of a few forms.
pub(super) fn of_rank<R: RankRow>(rank: &Rank<'_, R>) -> Vec<Vec<UnitSharding>> {
    let mut tried =
        if are_all_tried(rank) { all(rank.num_weights()) } else { up_to_some_size(&rank.costs.weights) };
    tried.retain(|kinds| rank.allows(kinds));
    tried
}

/// Whether all choices for a rank are tried.
pub(super) fn are_all_tried<R: RankRow>(rank: &Rank<'_, R>) -> bool {
    rank.num_weights() <= TRIED_WEIGHTS_MAX
}

fn all(num_weights: usize) -> Vec<Vec<UnitSharding>> {
    let number = KINDS.len().pow(num_weights as u32);
    let kind = |of: usize, weight: usize| KINDS[of / KINDS.len().pow(weight as u32) % KINDS.len()];
    (0..number).map(|of| (0..num_weights).map(|weight| kind(of, weight)).collect()).collect()
}

/// Choices that shard all weights up to some size and a few larger ones, and keep whole gradients of all beyond some size but a few.
pub(super) fn up_to_some_size(weights: &[WeightCosts]) -> Vec<Vec<UnitSharding>> {
    let classes = classes(weights);
    let lens: Vec<usize> = classes.iter().map(Vec::len).collect();
    let counts = counts(&lens);
    let mut tried = Vec::new();
    for sharded in &counts {
        for reduced in counts.iter().filter(|reduced| sharded.iter().zip(*reduced).all(|(of, all)| of <= all))
        {
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
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let key = |&weight: &usize| {
        let WeightCosts { gathered_bytes, at_rest_bytes, sent_bytes, stays_whole, tied } = &weights[weight];
        (std::cmp::Reverse(*gathered_bytes), *stays_whole, *at_rest_bytes, *sent_bytes, tied.is_some())
    };
    // Tied weights by their numbers, so that both ranks take the same first ones.
    order.sort_by_key(|weight| (key(weight), weights[*weight].tied, *weight));
    order.chunk_by(|one, next| key(one) == key(next)).map(<[usize]>::to_vec).collect()
}

/// How many of each class have a mark: all from some class on, and of the classes before it together at most [`LARGER_MAX`], or
/// fewer where there are many classes.
fn counts(lens: &[usize]) -> Vec<Vec<usize>> {
    let of = |larger_max| {
        let mut counts = BTreeSet::new();
        for first in 0..=lens.len() {
            let (larger, smaller) = lens.split_at(first);
            counts.extend(few(larger, larger_max).into_iter().map(|larger| [&larger, smaller].concat()));
        }
        counts
    };
    let mut tried = (1..=LARGER_MAX).rev().map(of);
    let counts = tried.find(|counts| counts.len() <= MARKS_MAX).unwrap_or_else(|| of(0));
    let step = counts.len().div_ceil(MARKS_MAX);
    // The last has every weight, the first none: both stay.
    let num_counts = counts.len();
    let stays = |place: &usize| place.is_multiple_of(step) || place + 1 == num_counts;
    (0..).zip(counts).filter(|(place, _)| stays(place)).map(|(_, counts)| counts).collect()
}

/// All ways to take at most so many of these classes together.
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
