//! ZeRO's levels and when gradients are reduced: what the formulas for memory and traffic branch on.

use serde::{Serialize, Serializer};

/// A stage of ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
/// arXiv:1910.02054, section 5): what is sharded over the data ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZeroLevel {
    /// Nothing: every data rank holds everything.
    Zero0,
    /// Optimizer state.
    Zero1,
    /// Optimizer state and gradients.
    Zero2,
    /// Optimizer state, gradients and parameters.
    Zero3,
}

/// As a number, which is how run files write it.
impl Serialize for ZeroLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

/// When gradients are reduced over the data ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReductionPolicy {
    /// After every micro-batch: gradients are sharded, one unit's unsharded gradient exists at a time.
    Every,
    /// Once: gradients accumulate unsharded over the micro-batches of a step.
    Last,
}

/// The elements of a rank's weights, by what becomes of them under ZeRO-3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightElements {
    /// Of all weights.
    pub num_all: u64,
    /// Of those that are sharded between their uses.
    pub num_sharded: u64,
    /// Of those that are trained.
    pub num_trained: u64,
    /// Of those whose gradients are reduced after every micro-batch.
    pub num_reduced_often: u64,
}

impl WeightElements {
    /// Whether the rank does what ZeRO-2 does: less than a twentieth of its weights is sharded between uses, and more than half of the gradients are
    /// reduced after every micro-batch.
    pub fn are_as_under_zero_2(self) -> bool {
        let Self { num_all, num_sharded, num_trained, num_reduced_often } = self;
        let is_mostly_whole = 20 * u128::from(num_sharded) < u128::from(num_all);
        is_mostly_whole && 2 * u128::from(num_reduced_often) > u128::from(num_trained)
    }
}

/// What is sharded over how many data ranks.
///
/// ZeRO-0 and ZeRO-1 go with [`ReductionPolicy::Last`], ZeRO-2 with [`ReductionPolicy::Every`], ZeRO-3 with either.
/// The formulas take level and policy apart, so that a combination which a run may not have can still be priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sharding {
    /// The level.
    pub level: ZeroLevel,
    /// When gradients are reduced.
    pub reduce: ReductionPolicy,
    /// d: data ranks, at least 1.
    pub data_degree: u64,
}

impl Sharding {
    /// Whether a rank holds only its shard of the optimizer state.
    pub fn shards_optimizer(self) -> bool {
        self.level >= ZeroLevel::Zero1
    }

    /// Whether a rank holds only its shard of the gradients between two micro-batches.
    ///
    /// This is the policy's doing: ZeRO-3 with [`ReductionPolicy::Last`] accumulates whole gradients like ZeRO-1.
    pub fn shards_gradients(self) -> bool {
        self.reduce == ReductionPolicy::Every
    }

    /// Whether a rank holds only its shard of the parameters between two uses.
    pub fn shards_parameters(self) -> bool {
        self.level == ZeroLevel::Zero3
    }
}
