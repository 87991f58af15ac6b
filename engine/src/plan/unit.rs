//! One unit of a plan.

use std::ops::Range;

use pipezero_models::Unit as ModelUnit;
use pipezero_models::layer::{MicroBatchShape, Slice};
use pipezero_models::unit::UnitSizes;
use pipezero_partition::{ShardLayout, Tying, UnitSharding};
use pipezero_schedule::Stage;

/// One unit of the plan.
#[derive(Clone, Debug)]
pub struct PlannedUnit {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// Its layers, with one flat parameter buffer.
    pub unit: ModelUnit,
    /// Their positions in the model's chain.
    pub layers: Range<usize>,
    /// Whether its weight is used twice.
    pub tying: Tying,
    /// How its flat buffer is cut over the data ranks.
    pub layout: ShardLayout,
    /// What it needs for a micro-batch. What slices keep from forward to backward is counted with the first of them.
    pub sizes: UnitSizes,
    /// Floating-point operations of a forward of one micro-batch.
    pub forward_flops: u64,
    /// What becomes of it under ZeRO-3; not read below.
    pub sharding: UnitSharding,
    /// Whether its weights are not trained.
    pub is_frozen: bool,
}

impl PlannedUnit {
    /// Whether ZeRO-3 gathers its weights for each use; if not, they are whole all step.
    pub fn is_sharded(&self) -> bool {
        self.sharding == UnitSharding::Sharded
    }

    /// Whether its weights stay gathered all step although its gradients are sharded.
    pub(crate) fn is_persistent(&self) -> bool {
        self.sharding == UnitSharding::Persistent
    }

    /// Whether it is a table of the vocabulary, or a slice of one, that is gathered without any block.
    pub(crate) fn is_table(&self) -> bool {
        self.tying != Tying::Untied || self.unit.table_slice() != Slice::WHOLE
    }

    /// Numbers of the largest inputs that its front is given with a micro-batch, if it has one.
    pub(crate) fn front_values(&self, shape: MicroBatchShape) -> Option<usize> {
        Some(self.unit.front()?.num_values(shape))
    }

    /// Elements of its largest parameter, which decides whether it persists; of one in slices all count.
    pub(crate) fn largest_parameter(&self) -> u64 {
        self.unit.entries().iter().map(|entry| entry.spec.num_elements_of_all() as u64).max().unwrap_or(0)
    }
}
