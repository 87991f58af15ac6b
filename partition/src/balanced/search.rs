//! Depth-first search over splits whose ranks have several stages, with a fixed number of steps.
//!
//! Stages are given their blocks from the first on. A branch is left where a rank is over its limit, or where it cannot
//! beat the best split known: its maximum and sum of squares only grow.

use std::ops::RangeInclusive;

use super::{Bounded, stages};
use crate::minimax::Unevenness;

/// What makes one split better than another: the slowest stage, then evenness, then the order of the lists.
type Key = (u128, Unevenness, Vec<usize>);

/// The state of the search.
pub(super) struct Search<'a> {
    problem: &'a Bounded<'a>,
    best: Option<Key>,
    /// Where stages may begin if they are to be no slower than the best split known.
    windows: Vec<RangeInclusive<usize>>,
    /// Bytes of the ranks, by their hosts, of the stages that have their blocks.
    held: Vec<u64>,
    /// The stages that have their blocks.
    blocks_per_stage: Vec<usize>,
    num_steps_left: usize,
}

impl<'a> Search<'a> {
    /// The best split among those that fit, at least as good as `known`, and whether all were seen.
    pub(super) fn run(
        problem: &'a Bounded<'a>,
        known: Option<Vec<usize>>,
        num_steps_max: usize,
    ) -> (Option<Vec<usize>>, bool) {
        let mut search = Self {
            problem,
            best: None,
            windows: problem.windows(u128::MAX),
            held: vec![0; problem.num_stages()],
            blocks_per_stage: Vec::with_capacity(problem.num_stages()),
            num_steps_left: num_steps_max,
        };
        if let Some(known) = known {
            search.remember(search.key_of(known));
        }
        let is_complete = search.visit(0, 0, Unevenness::default());
        (search.best.map(|(.., blocks_per_stage)| blocks_per_stage), is_complete)
    }

    /// Tries all blocks for the next stage, which begins at `start`; `false` if the steps ran out.
    fn visit(&mut self, start: usize, slowest: u128, unevenness: Unevenness) -> bool {
        let stage = self.blocks_per_stage.len();
        if stage == self.problem.num_stages() {
            self.remember((slowest, unevenness, self.blocks_per_stage.clone()));
            return true;
        }
        let host = self.problem.hosts[stage];
        for end in start + 1..=self.problem.weights.num_blocks() {
            // Asked for each, because the window narrows with every better split.
            if !self.windows[stage + 1].contains(&end) {
                continue;
            }
            let slowest = slowest.max(self.problem.weights.sum(start..end));
            let unevenness = unevenness.plus(self.problem.weights.unevenness(start..end));
            if self.best.as_ref().is_some_and(|best| (best.0, best.1) < (slowest, unevenness)) {
                continue;
            }
            if self.num_steps_left == 0 {
                return false;
            }
            self.num_steps_left -= 1;
            let before = self.held[host];
            let bytes = before.saturating_add(self.problem.stage_bytes(stage, start..end));
            if bytes > self.problem.bound.limit_bytes {
                continue;
            }
            self.held[host] = bytes;
            self.blocks_per_stage.push(end - start);
            let is_complete = self.visit(end, slowest, unevenness);
            self.blocks_per_stage.pop();
            self.held[host] = before;
            if !is_complete {
                return false;
            }
        }
        true
    }

    /// Keeps the split if it is better than the best one known.
    fn remember(&mut self, key: Key) {
        if self.best.as_ref().is_none_or(|best| key < *best) {
            self.windows = self.problem.windows(key.0);
            self.best = Some(key);
        }
    }

    fn key_of(&self, blocks_per_stage: Vec<usize>) -> Key {
        let uneven = |sum: Unevenness, blocks| sum.plus(self.problem.weights.unevenness(blocks));
        let unevenness = stages(&blocks_per_stage).fold(Unevenness::default(), uneven);
        (self.problem.slowest(&blocks_per_stage), unevenness, blocks_per_stage)
    }
}
