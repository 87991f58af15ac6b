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
//! A second, coarser predicate narrows the windows too: one that forbids all ranges that contain a forbidden one. Where
//! it is near the first, a program has little to look at, and that no split is allowed is proved without any.
//!
//! With `L` blocks and `p` stages a program looks at the windows' pairs only: about `L` times a stage's blocks where
//! weights are even or the coarse predicate is sharp, `p * L^2 / 2` at worst.

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

/// Where a stage may begin: after the first `s` stages lie between so many and so many blocks. One window for each stage
/// and one for the end; one is empty if no such split exists.
///
/// `may_have` says whether a stage may have these blocks, and with a range it forbids all that contain it. There are at
/// least as many blocks as stages.
pub(crate) fn windows(
    num_blocks: usize,
    num_stages: usize,
    may_have: impl Fn(usize, Range<usize>) -> bool,
) -> Vec<RangeInclusive<usize>> {
    let mut last = vec![0; num_stages + 1];
    for stage in 0..num_stages {
        let start = last[stage];
        let limit = partition_point(start..num_blocks, |end| may_have(stage, start..end + 1));
        // Every stage has a block, those before the cut and those behind it.
        last[stage + 1] = limit.min(num_blocks + stage + 1 - num_stages);
    }
    let mut first = vec![num_blocks; num_stages + 1];
    for stage in (0..num_stages).rev() {
        let end = first[stage + 1];
        let limit = partition_point(0..end, |start| !may_have(stage, start..end));
        first[stage] = limit.max(stage);
    }
    first.into_iter().zip(last).map(|(first, last)| first..=last).collect()
}

/// The first place of a range that is not `before`, by bisection; its end if all are.
fn partition_point(places: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The smallest cap from `low` to `high` under which no window is empty; `None` if even `high` leaves one empty.
pub(crate) fn smallest_cap(
    (mut low, mut high): (u128, u128),
    windows: impl Fn(u128) -> Vec<RangeInclusive<usize>>,
) -> Option<u128> {
    let has_split = |cap| !windows(cap).iter().any(RangeInclusive::is_empty);
    if !has_split(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if has_split(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// What the first cap from `low` to `high` gives that gives anything. Memory often binds only a little, so the cap grows
/// slowly first: small caps have small windows.
pub(crate) fn grow_cap<T>((low, high): (u128, u128), attempt: impl Fn(u128) -> Option<T>) -> Option<T> {
    let (mut cap, mut step) = (low, low / 32 + 1);
    loop {
        let found = attempt(cap);
        if found.is_some() || cap >= high {
            return found;
        }
        cap = cap.saturating_add(step).min(high);
        step = step.saturating_mul(2);
    }
}

/// The best split without a bound, in blocks per stage; there are at least as many blocks as stages.
pub(crate) fn most_even_split(weights: &BlockWeights, num_stages: usize) -> Vec<usize> {
    minimax(weights, num_stages, |_, _| true, |_, _| true)
        .expect("without a bound some split is the best one")
}

/// Blocks per stage of the split described in the module's head; `None` if `fits(stage, blocks)` allows none.
///
/// `may_fit` is as [`windows`] wants it, and allows whatever `fits` allows. There are at least one stage and at least as
/// many blocks as stages.
pub(crate) fn minimax(
    weights: &BlockWeights,
    num_stages: usize,
    may_fit: impl Fn(usize, Range<usize>) -> bool,
    fits: impl Fn(usize, Range<usize>) -> bool,
) -> Option<Vec<usize>> {
    let windows = |cap: u128| {
        let may_have =
            |stage, blocks: Range<usize>| weights.sum(blocks.clone()) <= cap && may_fit(stage, blocks);
        windows(weights.num_blocks(), num_stages, may_have)
    };
    let most_even = |maximum: u128| {
        let stage = |stage, blocks: Range<usize>| {
            let is_allowed = weights.sum(blocks.clone()) <= maximum && fits(stage, blocks.clone());
            is_allowed.then(|| weights.unevenness(blocks))
        };
        Some(best_split(&windows(maximum), stage, Unevenness::plus)?.1)
    };
    let total = weights.total();
    let least = smallest_cap((total.div_ceil(num_stages as u128), total), windows)?;
    if let Some(split) = most_even(least) {
        return Some(split);
    }
    let (maximum, _) = grow_cap((least, total), |cap| {
        let stage = |stage, blocks: Range<usize>| {
            let weight = weights.sum(blocks.clone());
            (weight <= cap && fits(stage, blocks)).then_some(weight)
        };
        best_split(&windows(cap), stage, u128::max)
    })?;
    most_even(maximum)
}

/// The split with the smallest value, and its blocks per stage; among equals the one with the fewest blocks in the
/// first stage, the second, and so on.
///
/// `windows[s]` is where stage `s` may begin, the last window is where the last stage may end. `value` is `None` for
/// what a stage may not have. `join` puts a stage before those behind it: `V::default()` is the value of none, and
/// the result is never less than the second, so worse candidates are skipped before `value` is called.
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
