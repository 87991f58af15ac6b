//! One unit of a plan.

use std::cmp::Reverse;
use std::ops::Range;

use pipezero_config::{ReductionPolicy, ZeroConfig, ZeroLevel};
use pipezero_models::Unit as ModelUnit;
use pipezero_models::layer::{MicroBatchShape, Slice};
use pipezero_models::unit::{ParameterEntry, UnitSizes};
use pipezero_partition::{ShardLayout, Tying, UnitSharding};
use pipezero_schedule::Stage;

/// Parts of a unit that are gathered for a use, at most: what is sharded and trained, and what is sharded and frozen.
pub const MAX_GATHERED_PARTS: usize = 2;

/// Parameters of a unit that are sharded alike, and all trained or all frozen: a flat buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPart {
    /// What becomes of them under ZeRO-3; not read below.
    pub sharding: UnitSharding,
    /// Elements, before padding to shards.
    pub num_elements: usize,
    /// How the flat buffer is cut over the data ranks.
    pub layout: ShardLayout,
    /// Whether they are not trained.
    pub is_frozen: bool,
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
    /// What becomes of its parameters: its parts, as the unit numbers them, at least one: first what is trained, then what is not, each by kind in
    /// the order of [`UnitSharding::ALL`].
    pub parts: Vec<PlannedPart>,
    /// What it needs for a micro-batch. What slices keep from forward to backward is counted with the first of them.
    pub sizes: UnitSizes,
    /// Floating-point operations of a forward of one micro-batch.
    pub forward_flops: u64,
    /// Whether none of its weights is trained.
    pub is_frozen: bool,
    /// Whether its backward has anything to do: something is trained in it, or in a unit before it.
    pub has_backward: bool,
}

/// Of a unit's parameters, those that are trained: what its weight gradient is taken to cost is proportional to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrainedShare {
    trained: u64,
    all: u64,
}

impl TrainedShare {
    /// Of what a wholly trained unit costs, this share.
    pub(crate) fn of(self, cost: u128) -> u128 {
        cost * u128::from(self.trained) / u128::from(self.all)
    }

    /// The same of a time.
    pub(crate) fn of_time(self, time: f64) -> f64 {
        time * (self.trained as f64 / self.all as f64)
    }
}

/// When gradients are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduced {
    /// There are none.
    Never,
    /// Each micro-batch's by itself.
    Every,
    /// Once, after they have accumulated whole over a step.
    Last,
}

impl PlannedPart {
    /// When its gradients are reduced.
    pub fn reduced(&self, zero: &ZeroConfig) -> Reduced {
        let is_kept_whole = zero.level == ZeroLevel::Zero3 && self.sharding == UnitSharding::Whole;
        match self.is_frozen {
            true => Reduced::Never,
            false if zero.reduce == ReductionPolicy::Last || is_kept_whole => Reduced::Last,
            false => Reduced::Every,
        }
    }
}

impl PlannedUnit {
    /// Whether ZeRO-3 gathers weights of it for each use; if not, they are whole all step.
    pub fn is_sharded(&self) -> bool {
        self.has(UnitSharding::Sharded)
    }

    /// Elements of the flat buffers of what is trained, padding included: of its gradient.
    pub fn gradient_len(&self) -> usize {
        self.trained_parts().map(|part| part.layout.padded_len()).sum()
    }

    /// Elements that a data rank owns of what is trained.
    pub fn trained_shard_len(&self) -> usize {
        self.trained_parts().map(|part| part.layout.shard_len()).sum()
    }

    /// Elements that are gathered for a use under ZeRO-3, padding included: of what is sharded, trained or not.
    pub fn gathered_len(&self) -> usize {
        self.gathered_parts().map(|part| self.parts[part].layout.padded_len()).sum()
    }

    /// The parts that are gathered for a use under ZeRO-3, at most [`MAX_GATHERED_PARTS`], the largest first: each has a buffer of its own.
    pub fn gathered_parts(&self) -> impl Iterator<Item = usize> + use<> {
        // Asked in every step, so without a list of its own.
        let mut sharded =
            (0..self.parts.len()).filter(|&part| self.parts[part].sharding == UnitSharding::Sharded);
        let mut parts = [sharded.next(), sharded.next()];
        parts.sort_by_key(|part| Reverse(part.map(|part| self.parts[part].num_elements)));
        parts.into_iter().flatten()
    }

    pub(crate) fn trained_parts(&self) -> impl Iterator<Item = &PlannedPart> {
        self.parts.iter().filter(|part| !part.is_frozen)
    }

    /// The parameters of a kind.
    pub(crate) fn entries_of_kind(&self, kind: UnitSharding) -> impl Iterator<Item = &ParameterEntry> {
        self.unit.entries().iter().filter(move |entry| self.parts[entry.part].sharding == kind)
    }

    /// The parameters that are not trained.
    pub fn frozen_entries(&self) -> impl Iterator<Item = &ParameterEntry> {
        self.unit.entries().iter().filter(|entry| self.parts[entry.part].is_frozen)
    }

    /// The share of its weight gradient's work that is done. All of it where a trained unit has no parameters.
    pub(crate) fn trained_share(&self) -> TrainedShare {
        let frozen: usize = self.frozen_entries().map(|entry| entry.range.len()).sum();
        match self.unit.num_parameters() {
            0 => TrainedShare { trained: u64::from(!self.is_frozen), all: 1 },
            all => TrainedShare { trained: (all - frozen) as u64, all: all as u64 },
        }
    }

    /// Whether it has parameters of a kind.
    pub(crate) fn has(&self, kind: UnitSharding) -> bool {
        self.parts.iter().any(|part| part.sharding == kind)
    }

    /// Whether it is as under ZeRO-1.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| part.sharding == UnitSharding::Whole)
    }

    /// Whether it is a table of the vocabulary, or a slice of one, that is gathered without any block.
    pub(crate) fn is_table(&self) -> bool {
        self.tying != Tying::Untied || self.unit.table_slice() != Slice::WHOLE
    }

    /// Numbers of the largest inputs that its input encoder gets with a micro-batch, if it has one.
    pub(crate) fn encoder_values(&self, shape: MicroBatchShape) -> Option<usize> {
        Some(self.unit.input_encoder()?.num_values(shape))
    }

    /// Sets what becomes of its parameters, in the order of declaration; what is trained stays as it is.
    pub(super) fn divide(&mut self, kinds: &[UnitSharding], data_degree: usize) {
        let is_frozen = |entry: &ParameterEntry| self.parts[entry.part].is_frozen;
        let frozen: Vec<bool> = self.unit.entries().iter().map(is_frozen).collect();
        self.set_parts(kinds, &frozen, data_degree);
    }

    /// Sets what becomes of its parameters and whether they are frozen, in the order of declaration.
    pub(super) fn set_parts(&mut self, kinds: &[UnitSharding], frozen: &[bool], data_degree: usize) {
        let all =
            [false, true].into_iter().flat_map(|is_frozen| UnitSharding::ALL.map(|kind| (is_frozen, kind)));
        let has = |&(is_frozen, kind): &(bool, UnitSharding)| {
            kinds.iter().zip(frozen).any(|of| of == (&kind, &is_frozen))
        };
        let mut parts: Vec<(bool, UnitSharding)> = all.filter(has).collect();
        if parts.is_empty() {
            // A unit without parameters.
            parts.push((self.is_frozen, UnitSharding::Sharded));
        }
        let part_of =
            |index| parts.iter().position(|&part| part == (frozen[index], kinds[index])).unwrap_or(0);
        self.unit = self.unit.clone().with_parts(part_of);
        let part = |(part, &(is_frozen, sharding))| {
            let num_elements = self.unit.num_elements_of(part);
            let layout = ShardLayout::new(num_elements, data_degree);
            PlannedPart { sharding, num_elements, layout, is_frozen }
        };
        self.parts = parts.iter().enumerate().map(part).collect();
    }
}
