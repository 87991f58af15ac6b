//! The balanced split: the slowest stage is as fast as any split allows whose ranks fit their memory.
//!
//! The slowest stage sets the pace of a pipeline, so its time is what is minimised; memory is a bound, not a term to
//! weigh against. What a stage holds is the caller's to say, because it depends on how many micro-batches the stage
//! keeps in flight: the first stage of 1F1B holds `p` times the activations of the last one, so at equal times it may
//! have to have fewer layers. Nothing is assumed of it, not even that more layers need more.
//!
//! # One stage per rank
//! Exact: the split is optimal, and an error proves that no split fits. Few ranges are asked for where layers
//! are alike, or where [`MemoryBound::least_bytes`] is near what stages need: then memory alone decides where
//! stages can begin. Without it a proof that no split fits asks for `p * L^2 / 2` ranges a few times over
//! (`L` transformer layers, `p` stages).
//!
//! # Several stages per rank
//! The memory of a rank is the sum over its stages, which ties cuts together that lie far apart, so a dynamic program
//! over the chain no longer sees it. In turn:
//!
//! 1. the optimum where each stage alone fits. If ranks fit too, nothing is better; if even this one does not
//!    exist, no split fits.
//! 2. a split to beat: the best one with each stage within its equal share of the limit, which certainly fits; or else
//!    the best one whose largest share is smallest, if that fits.
//! 3. a depth-first search over all splits that may beat it. It ends after a fixed number of steps, so that the result
//!    depends on the input alone; [`Balanced::is_exact`] and [`BalanceError::Infeasible::is_proven`] say whether it saw
//!    everything.
//!
//! A split that is returned never breaks the bound. The slowest *stage* is minimised here too, not the busiest rank:
//! under interleaved schedules all stages take turns, and `v` stages of at most `T` make a rank of at most `v * T`.
//!
//! 1F1B with unequal stages is not exactly as slow as its slowest stage suggests; the engine simulates the result
//! to know how fast it is.

mod error;
mod search;
#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};

pub use self::error::BalanceError;
use self::search::Search;
use crate::graph::LayerGraph;
use crate::minimax::{BlockWeights, best_split, grow_cap, minimax, most_even_split, smallest_cap, windows};
use crate::split::Split;

/// Steps of the search where ranks have several stages; each asks for the bytes of one stage.
const SEARCH_STEPS_MAX: usize = 1 << 20;

/// The memory that every rank has, and what a stage takes of it.
#[derive(Clone, Copy)]
pub struct MemoryBound<'a> {
    /// Bytes of one rank.
    pub limit_bytes: u64,
    /// Bytes that a stage needs with these layers, embeddings and heads at the ends included. The bytes of a rank are
    /// the sum over its stages; buffers that its stages share may be counted for each, which is on the safe side.
    pub stage_bytes: &'a dyn Fn(usize, Range<usize>) -> u64,
    /// Bytes that a stage needs at least with these layers: never more than `stage_bytes`, and never less for more layers
    /// around the same ones. It changes no result, only how soon there is one; `|_, _| 0` always holds.
    pub least_bytes: &'a dyn Fn(usize, Range<usize>) -> u64,
}

/// A split that fits, and whether it is known to be the best one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balanced {
    /// The layers of every stage.
    pub split: Split,
    /// The cost of the slowest stage. Saturates at `u64::MAX`.
    pub slowest_cost: u64,
    /// Whether no split that fits has a faster slowest stage. Always so with one stage per rank and without a bound.
    pub is_exact: bool,
}

/// Splits the blocks so that the largest cost of a stage is as small as possible and no rank needs more than its
/// memory.
///
/// `layer_costs` are the times of forward and backward of each layer for one micro-batch, in any one unit:
/// nanoseconds, or operations. `rank_of_stage` says on which pipeline rank each stage lies, one entry per stage.
///
/// Among the splits with the smallest maximum: the most even one in costs (smallest sum of squares), then in blocks,
/// then the one with the fewest blocks in the first stage, the second, and so on.
///
/// # Errors
/// [`BalanceError::WrongNumberOfCosts`]; [`BalanceError::Split`] for 0 stages or more stages than blocks;
/// [`BalanceError::Infeasible`].
pub fn balanced(
    graph: &LayerGraph,
    layer_costs: &[u64],
    rank_of_stage: &[usize],
    bound: Option<MemoryBound<'_>>,
) -> Result<Balanced, BalanceError> {
    balanced_within(graph, layer_costs, rank_of_stage, bound, SEARCH_STEPS_MAX)
}

/// [`balanced`] with a search of so many steps.
fn balanced_within(
    graph: &LayerGraph,
    layer_costs: &[u64],
    rank_of_stage: &[usize],
    bound: Option<MemoryBound<'_>>,
    num_steps_max: usize,
) -> Result<Balanced, BalanceError> {
    let (num_costs, num_layers) = (layer_costs.len(), graph.num_layers());
    if num_costs != num_layers {
        return Err(BalanceError::WrongNumberOfCosts { num_costs, num_layers });
    }
    let num_stages = rank_of_stage.len();
    Split::check_num_stages(graph, num_stages)?;
    let weights = BlockWeights::of(graph, |layer| layer_costs[layer]);
    let (blocks_per_stage, is_exact) = match bound {
        None => (most_even_split(&weights, num_stages), true),
        Some(bound) => Bounded::new(graph, &weights, rank_of_stage, bound).solve(num_steps_max)?,
    };
    let split = Split::by_blocks(graph, &blocks_per_stage)?;
    let costs = split.stages().map(|layers| layer_costs[layers].iter().copied().fold(0, u64::saturating_add));
    Ok(Balanced { slowest_cost: costs.max().unwrap_or(0), split, is_exact })
}

/// The problem with a bound, in blocks.
struct Bounded<'a> {
    graph: &'a LayerGraph,
    weights: &'a BlockWeights,
    /// For each stage, the first stage of the same rank: ranks by small numbers, whatever the caller calls them.
    hosts: Vec<usize>,
    /// For each stage, how many stages its rank has.
    num_sharing: Vec<u64>,
    bound: MemoryBound<'a>,
}

impl<'a> Bounded<'a> {
    fn new(
        graph: &'a LayerGraph,
        weights: &'a BlockWeights,
        rank_of_stage: &[usize],
        bound: MemoryBound<'a>,
    ) -> Self {
        let host = |rank| rank_of_stage.iter().position(|other| other == rank).expect("it is one of them");
        let num_sharing = |rank| rank_of_stage.iter().filter(|&other| other == rank).count() as u64;
        Self {
            graph,
            weights,
            hosts: rank_of_stage.iter().map(host).collect(),
            num_sharing: rank_of_stage.iter().map(num_sharing).collect(),
            bound,
        }
    }

    /// Blocks per stage of the best split known, and whether it is the best one: the steps of the module's head.
    fn solve(&self, num_steps_max: usize) -> Result<(Vec<usize>, bool), BalanceError> {
        let limit = self.bound.limit_bytes;
        let may_fit = |stage, blocks| self.may_fit(stage, blocks);
        let alone = minimax(self.weights, self.num_stages(), may_fit, |stage, blocks| {
            self.stage_bytes(stage, blocks) <= limit
        });
        let Some(alone) = alone else { return Err(self.infeasible(self.smallest_shares(), true)) };
        if self.fits(&alone) {
            return Ok((alone, true));
        }
        let nearest = self.within_shares(limit).unwrap_or_else(|| self.smallest_shares());
        let known = self.fits(&nearest).then(|| nearest.clone());
        let (best, is_complete) = Search::run(self, known, num_steps_max);
        let Some(best) = best else { return Err(self.infeasible(nearest, is_complete)) };
        // Where each stage alone would be no faster, a search that ended early has missed nothing but evenness.
        let is_exact = is_complete || self.slowest(&best) == self.slowest(&alone);
        Ok((best, is_exact))
    }

    /// Where stages may begin that are no slower than this and may fit alone.
    fn windows(&self, slowest: u128) -> Vec<RangeInclusive<usize>> {
        windows(self.weights.num_blocks(), self.num_stages(), |stage, blocks| {
            self.weights.sum(blocks.clone()) <= slowest && self.may_fit(stage, blocks)
        })
    }

    fn slowest(&self, blocks_per_stage: &[usize]) -> u128 {
        stages(blocks_per_stage).map(|blocks| self.weights.sum(blocks)).max().unwrap_or(0)
    }

    fn num_stages(&self) -> usize {
        self.hosts.len()
    }

    fn stage_bytes(&self, stage: usize, blocks: Range<usize>) -> u64 {
        (self.bound.stage_bytes)(stage, self.graph.layers_of_blocks(blocks))
    }

    /// Whether the stage alone may be within the limit; as [`windows`] wants it.
    fn may_fit(&self, stage: usize, blocks: Range<usize>) -> bool {
        (self.bound.least_bytes)(stage, self.graph.layers_of_blocks(blocks)) <= self.bound.limit_bytes
    }

    /// What the rank needs if each of its stages needs as much as this one.
    fn share(&self, stage: usize, blocks: Range<usize>) -> u64 {
        self.stage_bytes(stage, blocks).saturating_mul(self.num_sharing[stage])
    }

    /// The same of what the stage needs at least.
    fn least_share(&self, stage: usize, blocks: Range<usize>) -> u64 {
        let least = (self.bound.least_bytes)(stage, self.graph.layers_of_blocks(blocks));
        least.saturating_mul(self.num_sharing[stage])
    }

    /// The best split whose shares are within the limit.
    fn within_shares(&self, limit: u64) -> Option<Vec<usize>> {
        let may_fit = |stage, blocks| self.least_share(stage, blocks) <= limit;
        minimax(self.weights, self.num_stages(), may_fit, |stage, blocks| self.share(stage, blocks) <= limit)
    }

    /// The best split among those whose largest share is smallest. With one stage per rank these are the splits with
    /// the smallest memory.
    fn smallest_shares(&self) -> Vec<usize> {
        let windows = |cap: u128| {
            let may_have = |stage, blocks| u128::from(self.least_share(stage, blocks)) <= cap;
            windows(self.weights.num_blocks(), self.num_stages(), may_have)
        };
        let most = u128::from(u64::MAX);
        let least = smallest_cap((0, most), windows).expect("without a bound no window is empty");
        let smallest = grow_cap((least, most), |cap| {
            let share = |stage, blocks| {
                let share = self.share(stage, blocks);
                (u128::from(share) <= cap).then_some(share)
            };
            best_split(&windows(cap), share, u64::max)
        });
        smallest
            .and_then(|(share, _)| self.within_shares(share))
            .expect("there is a split, and its largest share is within itself")
    }

    /// Bytes of every stage, and of the ranks by their hosts.
    fn bytes(&self, blocks_per_stage: &[usize]) -> (Vec<u64>, Vec<u64>) {
        let of_stages: Vec<u64> = stages(blocks_per_stage)
            .enumerate()
            .map(|(stage, blocks)| self.stage_bytes(stage, blocks))
            .collect();
        let mut of_hosts = vec![0_u64; self.num_stages()];
        for (&host, &bytes) in self.hosts.iter().zip(&of_stages) {
            of_hosts[host] = of_hosts[host].saturating_add(bytes);
        }
        (of_stages, of_hosts)
    }

    fn fits(&self, blocks_per_stage: &[usize]) -> bool {
        let (_, of_hosts) = self.bytes(blocks_per_stage);
        of_hosts.iter().all(|&bytes| bytes <= self.bound.limit_bytes)
    }

    /// The error that names the largest stage of the fullest rank in the nearest split.
    fn infeasible(&self, nearest: Vec<usize>, is_proven: bool) -> BalanceError {
        let (of_stages, of_hosts) = self.bytes(&nearest);
        let need = |&stage: &usize| (of_hosts[self.hosts[stage]], of_stages[stage], std::cmp::Reverse(stage));
        let stage = (0..self.num_stages()).max_by_key(need).expect("there is a stage");
        BalanceError::Infeasible {
            stage,
            needs_bytes: of_hosts[self.hosts[stage]],
            limit_bytes: self.bound.limit_bytes,
            nearest,
            is_proven,
        }
    }
}

/// The blocks of every stage.
fn stages(blocks_per_stage: &[usize]) -> impl Iterator<Item = Range<usize>> {
    blocks_per_stage.iter().scan(0, |start, num_blocks| {
        let blocks = *start..*start + num_blocks;
        *start = blocks.end;
        Some(blocks)
    })
}
