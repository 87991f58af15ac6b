//! Collectives and transfers that one rank takes part in during a step: how many, and the bytes that it sends.
//!
//! With `P(u)` a unit's padded elements, `S(u) = P(u) / d` its shard, `b_p` and `b_a` the bytes of a parameter and an
//! activation (both 4 in f32) and `m` micro-batches, every data rank of a stage sends:
//!
//! | kind | count | bytes | when |
//! |---|---|---|---|
//! | all-gather | gathers of the unit | `b_p * (d - 1) * S(u)` each | ZeRO-3, before uses |
//! | | 1 per unit | `b_p * (d - 1) * S(u)` | after the optimizer step: ZeRO-1, 2, and persistent and whole units of ZeRO-3; a weight used twice on one rank once |
//! | reduce-scatter | `m` or 1 per unit | `4 * (d - 1) * S(u)` each | ZeRO-1, 2, 3; `m` if reduced after every micro-batch, but 1 for whole units of ZeRO-3 |
//! | all-reduce | `m` or 1 per unit | `4 * 2 * (d - 1) * S(u)` each | ZeRO-0 |
//! | | 1 | `4 * S` (ZeRO-0: `4 * P`) of the tied weight | the sum of its two gradients, where the other use is on another rank |
//! | | 1 | `2 * (W - 1) * 8 * ceil(24 / W)` | the gradient norm over all `W` ranks |
//! | send | `m` per stage | `b_a *` output cut each | activations, where the next stage lies on another rank |
//! | | `m` per stage | `b_a *` input cut each | gradients, where the stage before lies on another rank and has a backward |
//!
//! Of a frozen unit only the gathers before uses are left: it has no gradients, and its weights do not change.
//!
//! Gradients are reduced in f32 in every precision; parameters travel as they compute.
//!
//! The byte counts of all-gather and reduce-scatter are the lower bounds for one rank (Thakur et al., "Optimization of
//! Collective Communication Operations in MPICH", 2005, section 4), which a direct exchange and a ring both meet; an
//! all-reduce is one after the other. A collective in a group of one does nothing and counts as nothing.

#[cfg(test)]
mod tests;

use std::ops::{Add, AddAssign, Mul};

use serde::{Deserialize, Serialize};

use crate::element::{ElementBytes, F32_BYTES};
use crate::flat::{padded_elements, shard_elements};
use crate::role::{Tying, UnitSharding};
use crate::zero::{Sharding, ZeroLevel};

/// Words of 8 bytes in the record behind the gradient norm: 20 of the exact sum of squares, 3 of the loss, the
/// number of targets.
pub const NORM_RECORD_WORDS: u64 = 24;

/// Words more for each part that the loss reports beside its value: 3 of its sum, the number of its targets.
pub const LOSS_PART_WORDS: u64 = 4;

/// Bytes that one member sends so that every part of `num_elements` of `element_bytes` reaches its peers.
pub fn part_bytes(num_elements: usize, group_size: usize, element_bytes: usize) -> u64 {
    ((group_size - 1) * num_elements.div_ceil(group_size) * element_bytes) as u64
}

/// One unit's part in a step's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitTraffic {
    /// Elements of the flat parameter buffer, before padding to shards.
    pub num_elements: u64,
    /// All-gathers of the unit before uses in a step, from the program; not read below ZeRO-3 and for units that stay whole.
    pub num_gathers: u64,
    /// Whether its parameters are shared with another unit.
    pub tying: Tying,
    /// What becomes of it under ZeRO-3; not read below. Both uses of a tied weight are alike.
    pub sharding: UnitSharding,
    /// Whether its parameters are not trained. Both uses of a tied weight are alike.
    pub is_frozen: bool,
}

/// One stage's part in a step's traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTraffic {
    /// Elements of the gradient sent back for a micro-batch; 0 on the first stage, where the stage before lies on this rank too, and
    /// where nothing is trained before the stage.
    pub input_gradient_elements: u64,
    /// Elements of the activation sent for a micro-batch; 0 on the last stage, and where the next stage lies on this
    /// rank too.
    pub output_cut_elements: u64,
    /// The stage's units.
    pub units: Vec<UnitTraffic>,
}

/// What one rank's traffic in a step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficFacts {
    /// What is sharded over the data ranks.
    pub sharding: Sharding,
    /// What the precision decides.
    pub element_bytes: ElementBytes,
    /// W: all ranks of the grid.
    pub world_size: u64,
    /// m: micro-batches of a step.
    pub num_micro_batches: u64,
    /// Parts that the loss reports beside its value.
    pub num_loss_parts: u64,
    /// The rank's stages.
    pub stages: Vec<StageTraffic>,
}

/// Calls of one kind and the bytes that this rank sends in them. Saturates at `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Calls in groups larger than one.
    pub count: u64,
    /// Bytes sent by this rank.
    pub bytes: u64,
}

impl Volume {
    fn once(bytes: u64) -> Self {
        Self { count: 1, bytes }
    }
}

impl Add for Volume {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Volume {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self { count: self.count.saturating_mul(times), bytes: self.bytes.saturating_mul(times) }
    }
}

/// One rank's traffic in one training step, by kind; evaluation is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// All-gathers of parameters.
    pub all_gather: Volume,
    /// Reduce-scatters of gradients.
    pub reduce_scatter: Volume,
    /// All-reduces of gradients and of the gradient norm's record.
    pub all_reduce: Volume,
    /// Activations, their gradients and tied gradients.
    pub send: Volume,
}

impl Traffic {
    /// The traffic of one rank, by the formulas of the module's head.
    pub fn of(rank: &TrafficFacts) -> Self {
        let all_reduce = rank.norm() + rank.tied_sum();
        let mut traffic = Self { send: rank.sends(), all_reduce, ..Self::default() };
        if rank.sharding.data_degree > 1 {
            traffic.add_data_axis(rank);
        }
        traffic
    }

    /// Bytes of all kinds.
    pub fn total_bytes(&self) -> u64 {
        let Self { all_gather, reduce_scatter, all_reduce, send } = self;
        [all_gather, reduce_scatter, all_reduce, send]
            .into_iter()
            .fold(0, |sum, of| sum.saturating_add(of.bytes))
    }

    /// The collectives over the data ranks of the rank's stages.
    fn add_data_axis(&mut self, rank: &TrafficFacts) {
        for unit in rank.units() {
            let num_reductions = rank.num_reductions(unit);
            let gather = Volume::once(rank.one_way_bytes(unit, rank.element_bytes.parameter));
            self.all_gather += gather * rank.num_gathers(unit);
            let reduction = Volume::once(rank.one_way_bytes(unit, F32_BYTES));
            if rank.sharding.level == ZeroLevel::Zero0 {
                self.all_reduce += Volume::once(reduction.bytes.saturating_mul(2)) * num_reductions;
            } else {
                self.reduce_scatter += reduction * num_reductions;
            }
        }
    }
}

impl TrafficFacts {
    fn units(&self) -> impl Iterator<Item = &UnitTraffic> {
        self.stages.iter().flat_map(|stage| &stage.units)
    }

    /// All-gathers of the unit in a step: before its uses, or once after the optimizer's step where it stays whole.
    fn num_gathers(&self, unit: &UnitTraffic) -> u64 {
        let is_second_use =
            unit.tying == Tying::Head && self.units().any(|other| other.tying == Tying::Embedding);
        match self.sharding.level {
            ZeroLevel::Zero0 => 0,
            ZeroLevel::Zero3 if unit.sharding == UnitSharding::Sharded => unit.num_gathers,
            ZeroLevel::Zero1 | ZeroLevel::Zero2 | ZeroLevel::Zero3 => {
                u64::from(!is_second_use && !unit.is_frozen)
            }
        }
    }

    /// Reductions of the unit's gradient in a step.
    fn num_reductions(&self, unit: &UnitTraffic) -> u64 {
        if unit.is_frozen {
            return 0;
        }
        let is_whole = self.sharding.shards_parameters() && unit.sharding == UnitSharding::Whole;
        if self.sharding.shards_gradients() && !is_whole { self.num_micro_batches } else { 1 }
    }

    /// What one rank sends in an all-gather or a reduce-scatter of the unit: `(d - 1) * S(u)` elements.
    fn one_way_bytes(&self, unit: &UnitTraffic, element_bytes: u64) -> u64 {
        let shard = shard_elements(unit.num_elements, self.sharding.data_degree);
        shard.saturating_mul(element_bytes).saturating_mul(self.sharding.data_degree.saturating_sub(1))
    }

    fn sends(&self) -> Volume {
        let of_micro_batch = self
            .stages
            .iter()
            .flat_map(|stage| [stage.input_gradient_elements, stage.output_cut_elements])
            .filter(|&elements| elements > 0)
            .map(|elements| Volume::once(elements.saturating_mul(self.element_bytes.activation)))
            .fold(Volume::default(), Volume::add);
        of_micro_batch * self.num_micro_batches
    }

    /// The all-reduces of a tied weight's gradient over the ranks of its two uses, one for each slice: half goes each way, twice. Nothing is
    /// sent where both uses are here.
    fn tied_sum(&self) -> Volume {
        let has = |tying| self.units().any(|unit| unit.tying == tying);
        if has(Tying::Embedding) && has(Tying::Head) {
            return Volume::default();
        }
        let held = if self.sharding.level == ZeroLevel::Zero0 { padded_elements } else { shard_elements };
        let bytes =
            |unit: &UnitTraffic| held(unit.num_elements, self.sharding.data_degree).saturating_mul(F32_BYTES);
        let uses = self.units().filter(|unit| unit.tying != Tying::Untied && !unit.is_frozen);
        uses.map(|unit| Volume::once(bytes(unit))).fold(Volume::default(), Volume::add)
    }

    /// The one all-reduce over all ranks, its record padded to the same number of words for each of them.
    fn norm(&self) -> Volume {
        if self.world_size <= 1 {
            return Volume::default();
        }
        let num_words = NORM_RECORD_WORDS + LOSS_PART_WORDS * self.num_loss_parts;
        let share_bytes = 8 * num_words.div_ceil(self.world_size);
        Volume::once((self.world_size - 1).saturating_mul(2 * share_bytes))
    }
}
