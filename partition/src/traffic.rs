//! Collectives and transfers that one rank takes part in during a step: how many, and the bytes that it sends.
//!
//! With `P(u)` a unit's padded bytes, `S(u) = P(u) / d` its shard and `m` micro-batches, every data rank of a stage
//! sends:
//!
//! | kind | count | bytes | when |
//! |---|---|---|---|
//! | all-gather | gathers of the unit | `(d - 1) * S(u)` each | ZeRO-3, before uses |
//! | | 1 per unit | `(d - 1) * S(u)` | ZeRO-1, 2, after the optimizer step; a weight used twice on one rank once |
//! | reduce-scatter | `m` or 1 per unit | `(d - 1) * S(u)` each | ZeRO-1, 2, 3; `m` if reduced after every micro-batch |
//! | all-reduce | `m` or 1 per unit | `2 * (d - 1) * S(u)` each | ZeRO-0 |
//! | | 1 | `S` (ZeRO-0: `P`) of the tied weight | the sum of its two gradients, where the other use is on another rank |
//! | | 1 | `2 * (W - 1) * 8 * ceil(24 / W)` | the gradient norm over the world of `W` ranks |
//! | send | `m` | output cut each | activations, all stages but the last |
//! | | `m` | input cut each | gradients, all stages but the first |
//!
//! The byte counts of all-gather and reduce-scatter are the lower bounds for one rank (Thakur et al., "Optimization of
//! Collective Communication Operations in MPICH", 2005, section 4), which a direct exchange and a ring both meet; an
//! all-reduce is one after the other. A collective in a group of one does nothing and counts as nothing.

#[cfg(test)]
mod tests;

use std::ops::{Add, AddAssign, Mul};

use crate::flat::{ELEMENT_BYTES, padded_elements, shard_elements};
use crate::role::Tying;
use crate::zero::{Sharding, ZeroLevel};

/// Words of 8 bytes in the record behind the gradient norm: 20 of the exact sum of squares, 3 of the loss, the
/// number of targets.
pub const NORM_RECORD_WORDS: u64 = 24;

/// One unit's part in a step's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitTraffic {
    /// Elements of the flat parameter buffer, before padding to shards.
    pub num_elements: u64,
    /// All-gathers of the unit in a step, from the program; not read below ZeRO-3.
    pub num_gathers: u64,
    /// Whether its parameters are shared with another unit.
    pub tying: Tying,
}

/// What one rank's traffic in a step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficFacts {
    /// What is sharded over the data ranks.
    pub sharding: Sharding,
    /// W: all ranks of the grid.
    pub world_size: u64,
    /// m: micro-batches of a step.
    pub num_micro_batches: u64,
    /// Elements of the activation received for a micro-batch; 0 on the first stage.
    pub input_cut_elements: u64,
    /// Elements of the activation sent for a micro-batch; 0 on the last stage.
    pub output_cut_elements: u64,
    /// The rank's units.
    pub units: Vec<UnitTraffic>,
}

/// Calls of one kind and the bytes that this rank sends in them. Saturates at `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// The collectives over the data ranks of the stage.
    fn add_data_axis(&mut self, rank: &TrafficFacts) {
        let has_embedding = rank.units.iter().any(|unit| unit.tying == Tying::Embedding);
        let num_reductions = if rank.sharding.shards_gradients() { rank.num_micro_batches } else { 1 };
        for unit in &rank.units {
            let one_way = Volume::once(rank.one_way_bytes(unit));
            let is_second_use = has_embedding && unit.tying == Tying::Head;
            let num_gathers = match rank.sharding.level {
                ZeroLevel::Zero0 => 0,
                ZeroLevel::Zero1 | ZeroLevel::Zero2 => u64::from(!is_second_use),
                ZeroLevel::Zero3 => unit.num_gathers,
            };
            self.all_gather += one_way * num_gathers;
            if rank.sharding.level == ZeroLevel::Zero0 {
                self.all_reduce += Volume::once(one_way.bytes.saturating_mul(2)) * num_reductions;
            } else {
                self.reduce_scatter += one_way * num_reductions;
            }
        }
    }
}

impl TrafficFacts {
    /// What one rank sends in an all-gather or a reduce-scatter of the unit: `(d - 1) * S(u)`.
    fn one_way_bytes(&self, unit: &UnitTraffic) -> u64 {
        let shard_bytes =
            shard_elements(unit.num_elements, self.sharding.data_degree).saturating_mul(ELEMENT_BYTES);
        shard_bytes.saturating_mul(self.sharding.data_degree.saturating_sub(1))
    }

    fn sends(&self) -> Volume {
        let of_micro_batch = [self.input_cut_elements, self.output_cut_elements]
            .into_iter()
            .filter(|&elements| elements > 0)
            .map(|elements| Volume::once(elements.saturating_mul(ELEMENT_BYTES)))
            .fold(Volume::default(), Volume::add);
        of_micro_batch * self.num_micro_batches
    }

    /// The all-reduce of a tied weight's gradient over the ranks of its two uses: half goes each way, twice. Nothing is
    /// sent where both uses are here.
    fn tied_sum(&self) -> Volume {
        let mut uses = self.units.iter().filter(|unit| unit.tying != Tying::Untied);
        let (Some(only_use), None) = (uses.next(), uses.next()) else { return Volume::default() };
        let held = if self.sharding.level == ZeroLevel::Zero0 { padded_elements } else { shard_elements };
        Volume::once(held(only_use.num_elements, self.sharding.data_degree).saturating_mul(ELEMENT_BYTES))
    }

    /// The one all-reduce over all ranks, its record padded to the same number of words for each of them.
    fn norm(&self) -> Volume {
        if self.world_size <= 1 {
            return Volume::default();
        }
        let share_bytes = 8 * NORM_RECORD_WORDS.div_ceil(self.world_size);
        Volume::once((self.world_size - 1).saturating_mul(2 * share_bytes))
    }
}
