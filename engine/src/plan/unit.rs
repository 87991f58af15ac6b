//! One unit of a plan.

use std::ops::Range;

use pipezero_models::Unit as ModelUnit;
use pipezero_models::layer::{MicroBatchShape, Slice};
use pipezero_models::unit::{ParameterEntry, UnitSizes};
use pipezero_partition::{ShardLayout, Tying, UnitSharding};
use pipezero_schedule::Stage;

use crate::config::{ReductionPolicy, ZeroConfig, ZeroLevel};

/// Parameters of a unit that are sharded alike: a flat buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPart {
    /// What becomes of them under ZeRO-3; not read below.
    pub sharding: UnitSharding,
    /// Elements, before padding to shards.
    pub num_elements: usize,
    /// How the flat buffer is cut over the data ranks.
    pub layout: ShardLayout,
}

/// One unit of the plan.
#[derive(Clone, Debug)]
pub struct PlannedUnit {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// Its layers, with one flat parameter buffer for each part.
    pub unit: ModelUnit,
    /// Their positions in the model's chain.
    pub layers: Range<usize>,
    /// Whether its weight is used twice.
    pub tying: Tying,
    /// What becomes of its parameters: its parts, as the unit numbers them, at least one, by kind in the order of [`UnitSharding::ALL`].
    pub parts: Vec<PlannedPart>,
    /// What it needs for a micro-batch. What slices keep from forward to backward is counted with the first of them.
    pub sizes: UnitSizes,
    /// Floating-point operations of a forward of one micro-batch.
    pub forward_flops: u64,
    /// Whether its weights are not trained.
    pub is_frozen: bool,
}

impl PlannedPart {
    /// Whether its gradients accumulate whole over a step, and are reduced once.
    pub(crate) fn accumulates_whole(&self, zero: &ZeroConfig) -> bool {
        let is_kept_whole = zero.level == ZeroLevel::Zero3 && self.sharding == UnitSharding::Whole;
        zero.reduce == ReductionPolicy::Last || is_kept_whole
    }
}

impl PlannedUnit {
    /// Whether ZeRO-3 gathers weights of it for each use; if not, they are whole all step.
    pub fn is_sharded(&self) -> bool {
        self.part(UnitSharding::Sharded).is_some()
    }

    /// Elements of the flat buffers of all parts, padding included: of its gradient.
    pub fn padded_len(&self) -> usize {
        self.parts.iter().map(|part| part.layout.padded_len()).sum()
    }

    /// Elements that a data rank owns of them.
    pub fn shard_len(&self) -> usize {
        self.parts.iter().map(|part| part.layout.shard_len()).sum()
    }

    /// Elements that are gathered for a use under ZeRO-3, padding included: those of its sharded part.
    pub fn gathered_len(&self) -> usize {
        self.padded_len_of(UnitSharding::Sharded)
    }

    /// Elements of the flat buffer of a kind's part, padding included; 0 where there is none.
    pub(crate) fn padded_len_of(&self, kind: UnitSharding) -> usize {
        self.part(kind).map_or(0, |part| self.parts[part].layout.padded_len())
    }

    /// The parameters of a kind.
    pub(crate) fn entries_of_kind(&self, kind: UnitSharding) -> impl Iterator<Item = &ParameterEntry> {
        self.part(kind).into_iter().flat_map(|part| self.unit.entries_of(part))
    }

    /// The number of the part of a kind.
    pub(crate) fn part(&self, kind: UnitSharding) -> Option<usize> {
        self.parts.iter().position(|part| part.sharding == kind)
    }

    /// Whether all its weights stay gathered all step although its gradients are sharded.
    pub(crate) fn is_persistent(&self) -> bool {
        self.parts.iter().all(|part| part.sharding == UnitSharding::Persistent)
    }

    /// Whether it is as under ZeRO-1.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| part.sharding == UnitSharding::Whole)
    }

    /// Whether it is a table of the vocabulary, or a slice of one, that is gathered without any block.
    pub(crate) fn is_table(&self) -> bool {
        self.tying != Tying::Untied || self.unit.table_slice() != Slice::WHOLE
    }

    /// Numbers of the largest inputs that its front is given with a micro-batch, if it has one.
    pub(crate) fn front_values(&self, shape: MicroBatchShape) -> Option<usize> {
        Some(self.unit.front()?.num_values(shape))
    }

    /// The same unit with all parameters in one part.
    pub(super) fn in_one_part(mut self, sharding: UnitSharding, data_degree: usize) -> Self {
        self.set_parts(&[sharding], data_degree, |_| sharding);
        self
    }

    /// Sets what becomes of its parameters, in the order of declaration.
    pub(super) fn divide(&mut self, kinds: &[UnitSharding], data_degree: usize) {
        let mut parts = UnitSharding::ALL.to_vec();
        parts.retain(|kind| kinds.contains(kind));
        if !parts.is_empty() {
            self.set_parts(&parts, data_degree, |index| kinds[index]);
        }
    }

    fn set_parts(
        &mut self,
        parts: &[UnitSharding],
        data_degree: usize,
        kind_of: impl Fn(usize) -> UnitSharding,
    ) {
        let part_of = |index| parts.iter().position(|&part| part == kind_of(index)).unwrap_or(0);
        self.unit = self.unit.clone().with_parts(part_of);
        let part = |(part, &sharding)| {
            let num_elements = self.unit.num_elements_of(part);
            PlannedPart { sharding, num_elements, layout: ShardLayout::new(num_elements, data_degree) }
        };
        self.parts = parts.iter().enumerate().map(part).collect();
    }
}
