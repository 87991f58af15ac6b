//! Bytes that one rank allocates, by category.
//!
//! Everything is allocated before the first step, so the peak is the sum. All data ranks of a stage are alike. With
//! `P(u)` a unit's padded elements and `S(u) = P(u) / d` its shard ([`padded_elements`]),
//! sums and maxima over the rank's units, and 4 bytes to every element:
//!
//! | category | elements | when |
//! |---|---|---|
//! | parameters | `sum P` | ZeRO-0, 1, 2 |
//! | | `sum S` | ZeRO-3 |
//! | gathered | `gather buffers * max P` | ZeRO-3 |
//! | gradients | `sum P` | reduced once: a reduce-scatter works in place, the owner's slice is its shard |
//! | | `sum S + 2 * max P` | reduced after every micro-batch: one unit's gradient and one in flight |
//! | optimizer | `states * sum P` | ZeRO-0 |
//! | | `states * sum S` | ZeRO-1, 2, 3 |
//! | activations | `slots * (sum saved + output cut)` | kept from forward to backward, and the output until it is sent |
//! | | `+ max workspace + 3 * widest` | scratch, two activations and one gradient that stream from unit to unit |
//! | communication | `2 * input cut + 2 * output cut` | two receive buffers for each incoming edge |
//! | | `+ 2 * input cut` | two gradient send buffers |
//!
//! A tied weight whose two uses are on one rank has its parameters and optimizer state once and its gradients twice,
//! an accumulator for each use, so that the sum does not depend on the grid.
//!
//! Sources: model states follow arXiv:1910.02054, section 3.1 and figure 1 (there 2 + 2 bytes of parameter and
//! gradient and K = 12 bytes of optimizer state; in f32 there is no master copy: 4 + 4 and K = 8 for AdamW). `slots` is
//! the largest number of micro-batches in flight, `min(p - s, m)` on stage `s` of 1F1B (Narayanan et al.,
//! arXiv:2104.04473, section 2.2). The two gather buffers of one unit of prefetch are those of FSDP's rate limiter
//! (Zhao et al., arXiv:2304.11277, section 3.4).

#[cfg(test)]
mod tests;

use crate::flat::{ELEMENT_BYTES, padded_elements, shard_elements};
use crate::role::Tying;
use crate::zero::Sharding;

/// What one unit needs, in elements for one micro-batch where it depends on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitFacts {
    /// Elements of the flat parameter buffer, before padding to shards.
    pub num_elements: u64,
    /// Elements kept from forward to backward: every layer's input and saved values.
    pub saved_elements: u64,
    /// Scratch of forward and backward.
    pub workspace_elements: u64,
    /// Elements of the widest activation that enters or leaves the unit.
    pub widest_activation_elements: u64,
    /// Whether its parameters are shared with another unit.
    pub tying: Tying,
}

/// What one rank's memory depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFacts {
    /// What is sharded over the data ranks.
    pub sharding: Sharding,
    /// Values that the optimizer keeps for a parameter: AdamW 2, SGD 1 with momentum, else 0.
    pub num_optimizer_states: u64,
    /// Most gathered copies that the rank holds at once, from the program; not read below ZeRO-3.
    pub num_gather_buffers: u64,
    /// Most micro-batches whose activations the rank holds at once.
    pub num_activation_slots: u64,
    /// Elements of the activation received for a micro-batch; 0 on the first stage.
    pub input_cut_elements: u64,
    /// Elements of the activation sent for a micro-batch; 0 on the last stage.
    pub output_cut_elements: u64,
    /// The rank's units.
    pub units: Vec<UnitFacts>,
}

/// Bytes by category. A size beyond `u64::MAX` counts as `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBytes {
    /// Parameters between two uses: shards under ZeRO-3, else whole.
    pub parameters: u64,
    /// Gathered units, ZeRO-3.
    pub gathered: u64,
    /// Gradients, those in flight included.
    pub gradients: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Saved activations, streaming activations and workspaces.
    pub activations: u64,
    /// Receive and send buffers.
    pub communication: u64,
    /// The most that exists at once: the sum, since everything is allocated before the first step.
    pub peak: u64,
}

impl MemoryBytes {
    /// The bytes of one rank, by the formulas of the module's head.
    pub fn of(rank: &RankFacts) -> Self {
        let elements = [
            rank.parameter_elements(),
            rank.gathered_elements(),
            rank.gradient_elements(),
            rank.optimizer_elements(),
            rank.activation_elements(),
            rank.communication_elements(),
        ];
        let [parameters, gathered, gradients, optimizer, activations, communication] = elements.map(to_bytes);
        let peak = to_bytes(elements.into_iter().fold(0, u128::saturating_add));
        Self { parameters, gathered, gradients, optimizer, activations, communication, peak }
    }
}

/// One category each, in elements.
impl RankFacts {
    fn parameter_elements(&self) -> u128 {
        let is_sharded = self.sharding.shards_parameters();
        sum(self.weights().map(|unit| self.held(unit, is_sharded)))
    }

    fn gathered_elements(&self) -> u128 {
        if !self.sharding.shards_parameters() {
            return 0;
        }
        product(self.num_gather_buffers, self.largest_unit())
    }

    fn gradient_elements(&self) -> u128 {
        let is_sharded = self.sharding.shards_gradients();
        let accumulated = sum(self.units.iter().map(|unit| self.held(unit, is_sharded)));
        let unreduced = if is_sharded { 2 * self.largest_unit() } else { 0 };
        accumulated + unreduced
    }

    fn optimizer_elements(&self) -> u128 {
        let is_sharded = self.sharding.shards_optimizer();
        product(self.num_optimizer_states, sum(self.weights().map(|unit| self.held(unit, is_sharded))))
    }

    fn activation_elements(&self) -> u128 {
        let saved = sum(self.units.iter().map(|unit| unit.saved_elements));
        let slots = product(self.num_activation_slots, saved + u128::from(self.output_cut_elements));
        let workspace = max(self.units.iter().map(|unit| unit.workspace_elements));
        let widest = max(self.units.iter().map(|unit| unit.widest_activation_elements));
        slots.saturating_add(workspace + 3 * widest)
    }

    fn communication_elements(&self) -> u128 {
        let received = 2 * (u128::from(self.input_cut_elements) + u128::from(self.output_cut_elements));
        let gradients_sent = 2 * u128::from(self.input_cut_elements);
        received + gradients_sent
    }

    /// The units whose parameters and optimizer state are the rank's own: a weight that it uses twice comes once.
    fn weights(&self) -> impl Iterator<Item = &UnitFacts> {
        let has_embedding = self.units.iter().any(|unit| unit.tying == Tying::Embedding);
        self.units.iter().filter(move |unit| !(has_embedding && unit.tying == Tying::Head))
    }

    /// What the rank holds of a unit's flat buffer: its shard, or all of it.
    fn held(&self, unit: &UnitFacts, is_sharded: bool) -> u64 {
        let of = if is_sharded { shard_elements } else { padded_elements };
        of(unit.num_elements, self.sharding.data_degree)
    }

    fn largest_unit(&self) -> u128 {
        max(self.units.iter().map(|unit| self.held(unit, false)))
    }
}

// Elements are added up in 128 bits, so that absurd sizes from a run file end as a large number, not in a panic.

fn sum(elements: impl Iterator<Item = u64>) -> u128 {
    elements.map(u128::from).sum()
}

fn max(elements: impl Iterator<Item = u64>) -> u128 {
    elements.max().map_or(0, u128::from)
}

fn product(count: u64, elements: u128) -> u128 {
    u128::from(count).saturating_mul(elements)
}

fn to_bytes(elements: u128) -> u64 {
    u64::try_from(elements.saturating_mul(u128::from(ELEMENT_BYTES))).unwrap_or(u64::MAX)
}
