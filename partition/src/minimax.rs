//! The exact min-max split of a chain: contiguous stages whose heaviest is as light as any split allows.
//!
//! Blocks are the atoms; what comes before the first block weighs on it and what comes after the last block on that
//! one, so every split counts embedding and head where they will be. A predicate may forbid a stage to have a range
//! of blocks (too much memory); nothing is assumed of it. In particular a part of a range that fits may not fit: a
//! stage is cut into units from its first block on, so a block less at the front can make the largest unit larger.
//!
//! Among the splits with the smallest maximum the most even one is taken: smallest sum of squared weights, then of
//! squared numbers of blocks, then the one with the fewest blocks in the first stage, the second, and so on. The
//! maximum alone would not do: ten equal blocks on four stages are `[1, 3, 3, 3]` as well as `[2, 2, 3, 3]`.
//!
//! # Algorithm
//! Without a predicate the smallest maximum is found by bisection over greedy fillings (Pinar and Aykanat, "Fast
//! optimal load balancing algorithms for 1D partitioning", J. Parallel Distrib. Comput. 64, 2004, section 4). A
//! maximum also bounds where every stage can begin, and a dynamic program over these *windows* finds the most even
//! split. If the predicate forbids that maximum, larger ones are tried, and the first program that finds a split says
//! which is the smallest. Every program is exact for all splits up to its maximum.
//!
//! With `L` blocks and `p` stages a program looks at the windows' pairs only: about `L` times a stage's blocks where
//! weights are even, `p * L^2 / 2` at worst, which is also what it takes to prove that no split is allowed.

#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};

use crate::graph::LayerGraph;

/// What the blocks of a chain weigh, as prefix sums.
///
/// Sums are of 128 bits, so that no weights overflow; squares of absurd sums saturate and only lose evenness.
#[derive(Clone, Debug)]
pub(crate) struct BlockWeights {
    /// The weight of the first `i` blocks; one entry more than blocks, ascending.
    sums: Vec<u128>,
}

impl BlockWeights {
    /// The blocks of `graph`, each as heavy as its layers; `of_layer` takes a layer's position.
    pub(crate) fn of(graph: &LayerGraph, of_layer: impl Fn(usize) -> u64) -> Self {
        let of_block =
            |block| graph.layers_of_blocks(block..block + 1).map(|layer| u128::from(of_layer(layer)));
        Self::new((0..graph.num_blocks()).map(|block| of_block(block).sum()))
    }

    fn new(weights: impl Iterator<Item = u128>) -> Self {
        let mut sums = vec![0];
        sums.extend(weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        }));
        Self { sums }
    }

    pub(crate) fn num_blocks(&self) -> usize {
        self.sums.len() - 1
    }

    /// The weight of consecutive blocks.
    pub(crate) fn sum(&self, blocks: Range<usize>) -> u128 {
        self.sums[blocks.end] - self.sums[blocks.start]
    }

    pub(crate) fn total(&self) -> u128 {
        self.sum(0..self.num_blocks())
    }

    /// Where a stage may begin if none is heavier than `cap`: after the first `s` stages lie between so many and so
    /// many blocks. One window for each stage and one for the end; one is empty if there is no such split.
    pub(crate) fn windows(&self, num_stages: usize, cap: u128) -> Vec<RangeInclusive<usize>> {
        let num_blocks = self.num_blocks();
        let furthest = |&start: &usize| {
            let reach = self.sums[start].saturating_add(cap);
            Some(self.sums.partition_point(|&sum| sum <= reach) - 1)
        };
        let nearest =
            |&end: &usize| Some(self.sums.partition_point(|&sum| sum.saturating_add(cap) < self.sums[end]));
        let last = std::iter::successors(Some(0), furthest).take(num_stages + 1);
        let mut first: Vec<usize> =
            std::iter::successors(Some(num_blocks), nearest).take(num_stages + 1).collect();
        first.reverse();
        // Every stage has a block, those before the cut and those behind it.
        first
            .into_iter()
            .zip(last)
            .enumerate()
            .map(|(stage, (first, last))| {
                first.max(stage)..=last.min((num_blocks + stage).saturating_sub(num_stages))
            })
            .collect()
    }

    /// The smallest maximum of any split into so many stages, at most as many as blocks.
    fn smallest_maximum(&self, num_stages: usize) -> u128 {
        let (mut low, mut high) = (self.total().div_ceil(num_stages as u128), self.total());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.windows(num_stages, middle).iter().any(RangeInclusive::is_empty) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How uneven a stage of these blocks makes a split; adds up over stages.
    pub(crate) fn unevenness(&self, blocks: Range<usize>) -> Unevenness {
        let (weight, num_blocks) = (self.sum(blocks.clone()), blocks.len() as u64);
        Unevenness { weights: weight.saturating_mul(weight), blocks: num_blocks.saturating_mul(num_blocks) }
    }
}

/// Sums of squares over stages: first of weights, then of numbers of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unevenness {
    weights: u128,
    blocks: u64,
}

impl Unevenness {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            weights: self.weights.saturating_add(other.weights),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }
}

/// Blocks per stage of the split described in the module's head; `None` if `fits(stage, blocks)` allows none.
///
/// There are at least one stage and at least as many blocks as stages.
pub(crate) fn minimax(
    weights: &BlockWeights,
    num_stages: usize,
    fits: impl Fn(usize, Range<usize>) -> bool,
) -> Option<Vec<usize>> {
    let most_even = |maximum: u128| {
        let stage = |stage, blocks: Range<usize>| {
            let is_allowed = weights.sum(blocks.clone()) <= maximum && fits(stage, blocks.clone());
            is_allowed.then(|| weights.unevenness(blocks))
        };
        Some(best_split(&weights.windows(num_stages, maximum), stage, Unevenness::plus)?.1)
    };
    let mut cap = weights.smallest_maximum(num_stages);
    if let Some(split) = most_even(cap) {
        return Some(split);
    }
    // Memory often binds only a little, so the cap grows slowly first: small caps have small windows.
    let mut step = cap / 32 + 1;
    while cap < weights.total() {
        cap = cap.saturating_add(step).min(weights.total());
        step = step.saturating_mul(2);
        let stage = |stage, blocks: Range<usize>| {
            let weight = weights.sum(blocks.clone());
            (weight <= cap && fits(stage, blocks)).then_some(weight)
        };
        if let Some((maximum, _)) = best_split(&weights.windows(num_stages, cap), stage, u128::max) {
            return most_even(maximum);
        }
    }
    None
}

/// The split with the smallest value, and its blocks per stage; among equals the one with the fewest blocks in the
/// first stage, the second, and so on.
///
/// `windows[s]` is where stage `s` may begin, the last window is where the last stage may end. `value` is `None` for
/// what a stage may not have. `join` puts a stage before those behind it: `V::default()` is the value of none, and
/// the result is never less than the second, which is how losers are passed over before `value` is asked.
pub(crate) fn best_split<V: Ord + Copy + Default>(
    windows: &[RangeInclusive<usize>],
    value: impl Fn(usize, Range<usize>) -> Option<V>,
    join: impl Fn(V, V) -> V,
) -> Option<(V, Vec<usize>)> {
    let num_stages = windows.len() - 1;
    // For each stage and where it begins: the best value from there on, and where the stage then ends.
    let mut tables: Vec<Vec<Option<(V, usize)>>> = vec![Vec::new(); windows.len()];
    tables[num_stages] = windows[num_stages].clone().map(|end| Some((V::default(), end))).collect();
    for stage in (0..num_stages).rev() {
        let (next, behind) = (&windows[stage + 1], &tables[stage + 1]);
        let best_from = |start: usize| {
            let mut best: Option<(V, usize)> = None;
            for end in next.clone().skip_while(|&end| end <= start) {
                let Some((rest, _)) = behind[end - next.start()] else { continue };
                if best.is_some_and(|(best, _)| best <= rest) {
                    continue;
                }
                let Some(own) = value(stage, start..end) else { continue };
                let joined = join(own, rest);
                if best.is_none_or(|(best, _)| joined < best) {
                    best = Some((joined, end));
                }
            }
            best
        };
        tables[stage] = windows[stage].clone().map(best_from).collect();
    }
    let (best, _) = (*tables[0].first()?)?;
    let blocks_per_stage = (0..num_stages).scan(0, |start, stage| {
        let (_, end) = tables[stage][*start - windows[stage].start()]?;
        let num_blocks = end - *start;
        *start = end;
        Some(num_blocks)
    });
    Some((best, blocks_per_stage.collect()))
}
