//! A digest of the tokens that a rank has read in a step, by which the two ends of a pipeline are compared.
//!
//! The first stage reads the inputs of a micro-batch and the last stage its targets, each from the data as its own process sees it. If these were
//! different files, losses would look right and the weights would be of no data at all. So both ends digest what they read. The first adds its digests,
//! the last subtracts them, and the sum over all ranks is 0 where they agree.

use pipezero_plan::Plan;
use pipezero_schedule::PipelineRank;
use xxhash_rust::xxh3::Xxh3;

use crate::data::TokenBatch;

/// A rank's share of the sum that compares both ends of the pipeline; it wraps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokensDigest {
    end: End,
    sum: u64,
}

/// Which end of the pipeline a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    First,
    Last,
    /// Neither, or both.
    #[default]
    None,
}

impl TokensDigest {
    /// For a rank that has read nothing yet.
    pub(super) fn new(plan: &Plan, rank: PipelineRank) -> Self {
        let [first, last] = plan.ranks_of_ends();
        let end = match () {
            () if first == last => End::None,
            () if rank == first => End::First,
            () if rank == last => End::Last,
            () => End::None,
        };
        Self { end, sum: 0 }
    }

    /// Adds a micro-batch that was read.
    pub(super) fn add(&mut self, data_rank: usize, micro_batch: usize, tokens: &TokenBatch) {
        if self.end == End::None {
            return;
        }
        let mut digest = Xxh3::new();
        digest.update(bytemuck::cast_slice(&[data_rank as u64, micro_batch as u64]));
        digest.update(bytemuck::cast_slice(&tokens.inputs));
        digest.update(bytemuck::cast_slice(&tokens.targets));
        self.sum = match self.end {
            End::First => self.sum.wrapping_add(digest.digest()),
            End::Last => self.sum.wrapping_sub(digest.digest()),
            End::None => self.sum,
        };
    }

    /// Its share of the sum over all ranks.
    pub(super) fn sum(self) -> u64 {
        self.sum
    }
}
