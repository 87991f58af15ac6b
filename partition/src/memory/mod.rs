//! Bytes that one rank allocates, by category.
//!
//! Everything is allocated before the first step, so the peak is the sum. All data ranks of a stage are alike. With
//! `P(u)` a unit's padded elements and `S(u) = P(u) / d` its shard ([`padded_elements`]), `b_p` and `b_a` the bytes
//! of a parameter and an activation ([`ElementBytes`]; both 4 in f32), sums over the rank's stages and their units:
//!
//! | category | bytes | when |
//! |---|---|---|
//! | parameters | `b_p * sum P` | ZeRO-0, 1, 2 |
//! | | `b_p * (sum S + sum over persistent and whole units of (P - S))` | ZeRO-3; in training with `b_p < 4` `b_p * sum over these units of P`, as the rest is cast from the master copy |
//! | gathered | `b_p * sum of gather buffers` | ZeRO-3 |
//! | gradients | `4 * sum P` of trained units, as all gradients and optimizer state | reduced once: a reduce-scatter works in place, the owner's slice is its shard |
//! | | `4 * (sum S + sum of gradient buffers)` | reduced after every micro-batch: the gradient that is computed and the one that is reduced; `4 * P` for a unit that is whole under ZeRO-3 |
//! | optimizer | `4 * states * sum P` | ZeRO-0 |
//! | | `4 * states * sum S` | ZeRO-1, 2, 3 |
//! | | `+ 4 * sum P` or `+ 4 * sum S` likewise | the f32 master copy, where `b_p < 4` |
//! | activations | `b_a * sum over stages of slots * (sum saved + output)` | kept from forward to backward, and the output until it is read |
//! | | `+ b_a * max recompute` | what one checkpointed segment recomputes |
//! | | `+ b_a * sum over stages of buffers * sum of weight-gradient inputs` | weight-gradient inputs: kept from input to weight gradient, where a schedule runs them apart |
//! | | `+ (2 * b_a + 4) * max widest + 4 * max workspace` | two activations and one f32 gradient that stream from unit to unit, scratch |
//! | | `+ 4 * max allocated` | what a layer allocates itself |
//! | | `+ 8 * micro-batches * B * T` | inputs and targets of a step in 32 bits each, where the rank has the first unit or the last |
//! | | `+ 4 * micro-batches * B * T` | where each token's document begins, in runs that attend within documents |
//! | | `+ 4 * micro-batches * (B * T + numbers of the largest inputs)` | the inputs of an input encoder, and which of their rows each token
//! gets |
//! | | `+ 4 * (micro-batches + 1) * B * T * K` | K values of each token that a loss of one's own reads, where the rank has the last unit: those of a step, and of a micro-batch where the source writes them |
//! | communication | `b_a * sum over stages of (2 * input cut + r * output cut)` | two receive buffers for each edge over which messages come; r = 2, or 0 where no gradient comes back |
//! | | `+ b_a * sum over stages of g * input cut` | gradient send buffers: g = 2, or as many as wait while the receiving rank is at another of its stages; 0 where no gradient is sent |
//! | | `+ 4 * terms` | terms of sums that arrive and are not yet added ([`ReductionTerms`]), where GPUs send each other theirs |
//! | checkpoint | `4 * (1 + states) * sum S`, of frozen units `4 * sum S` | where checkpoints are written while training goes on: a copy of what the rank writes, of a tied weight on the rank of its first use |
//!
//! Inference has no gradients, no optimizer state and no checkpoints: these categories are 0, no f32 gradient streams, and only outputs
//! are received.
//!
//! A tied weight whose two uses are on one rank has its parameters and optimizer state once and its gradients twice,
//! an accumulator for each use, so that the sum does not depend on the grid. A persistent unit is whole between uses
//! and needs no gather buffer; its gradients and optimizer state are sharded like the rest. Of a whole unit only the
//! optimizer state is sharded, and its gradients need no buffer.
//!
//! A frozen unit has parameters alone: no gradients, no optimizer state, no master copy. So its shard is not cast from one, but held,
//! of `b_p` bytes an element, and a checkpoint's copy has it once.
//!
//! Where the next stage lies on the same rank (the turn of a V-shaped placement, several stages on one pipeline rank),
//! nothing is received or sent: the slot's output is passed on in place, and holds its gradient on the way back.
//!
//! Sources: model states follow arXiv:1910.02054, section 3.1 and figure 1 (there 2 + 2 bytes of parameter and
//! gradient and K = 12 bytes of optimizer state, master copy included; in f32 there is no master copy: 4 + 4 and K = 8
//! for AdamW; in bf16 gradients stay f32: 2 + 4 and K = 12). `slots` is the largest number of micro-batches in flight,
//! `min(p - s, m)` on stage `s` of 1F1B (Narayanan et al., arXiv:2104.04473, section 2.2). The gather buffers are those
//! of FSDP's rate limiter (Zhao et al., arXiv:2304.11277, section 3.4), each as large as the largest unit that it ever
//! holds. One buffer for recomputation: arXiv:1604.06174 (Chen et al., "Training Deep Nets with Sublinear
//! Memory Cost"), section 3.

mod category;
mod reduction_terms;
#[cfg(test)]
mod tests;

pub use category::Category;
pub use reduction_terms::ReductionTerms;
use serde::{Deserialize, Serialize};

use crate::element::{ElementBytes, F32_BYTES};
use crate::flat::{padded_elements, shard_elements};
use crate::role::{Tying, UnitSharding};
use crate::zero::Sharding;

/// Bytes of a token number, or of where a document begins.
const TOKEN_BYTES: u64 = 4;

/// What ranks are started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Steps: parameters, gradients and optimizer state.
    Training,
    /// Evaluation and generation: parameters alone.
    Inference,
}

/// What one unit needs, in elements for one micro-batch where it depends on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFacts {
    /// Elements of the flat parameter buffer, before padding to shards.
    pub num_elements: u64,
    /// Activation elements kept from forward to backward: every kept layer's input and saved values.
    pub saved_elements: u64,
    /// Activation elements that a checkpointed segment recomputes at once; 0 where the unit keeps everything.
    pub recompute_elements: u64,
    /// Elements kept from the input gradient to the weight gradient, where the two are apart.
    pub weight_input_elements: u64,
    /// f32 elements of scratch of forward and backward.
    pub workspace_elements: u64,
    /// f32 elements that one of its layers allocates itself, beside all buffers.
    pub allocated_elements: u64,
    /// Elements of the widest activation that enters or leaves the unit.
    pub widest_activation_elements: u64,
    /// Whether its parameters are shared with another unit.
    pub tying: Tying,
    /// What becomes of it under ZeRO-3; not read below. Both uses of a tied weight are alike.
    pub sharding: UnitSharding,
    /// Whether its parameters are not trained. Both uses of a tied weight are alike.
    pub is_frozen: bool,
}

/// What one of a rank's stages needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageFacts {
    /// Most micro-batches whose activations the stage holds at once.
    pub num_activation_slots: u64,
    /// Most micro-batches between their input gradient and their weight gradient; 0 where the two run as one.
    pub num_weight_input_buffers: u64,
    /// Elements of the activation received for a micro-batch; 0 on the first stage, and where the stage before lies on
    /// this rank too.
    pub input_cut_elements: u64,
    /// g: buffers out of which the gradient of that activation is sent; 0 where nothing is trained before the stage.
    pub num_gradient_send_buffers: u64,
    /// Elements of the activation sent for a micro-batch; 0 on the last stage, and where the next stage lies on this
    /// rank too.
    pub output_cut_elements: u64,
    /// r: buffers into which the gradient of that activation is received; 0 where nothing is trained up to the stage's end.
    pub num_gradient_receive_buffers: u64,
    /// Elements of the activation passed to the next stage on this rank; 0 where that stage lies elsewhere, and on the
    /// last stage.
    pub local_output_elements: u64,
    /// The stage's units.
    pub units: Vec<UnitFacts>,
}

/// What one rank's memory depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFacts {
    /// What the rank is started for.
    pub purpose: Purpose,
    /// What is sharded over the data ranks.
    pub sharding: Sharding,
    /// What the precision decides.
    pub element_bytes: ElementBytes,
    /// Values that the optimizer keeps for a parameter, a master copy not counted: AdamW 2, SGD 1 with momentum, else
    /// 0.
    pub num_optimizer_states: u64,
    /// Padded elements of each buffer for a gathered unit, from the program; not read below ZeRO-3.
    pub gather_buffer_elements: Vec<u64>,
    /// Padded elements of each buffer for an unsharded gradient, from the program; not read where gradients accumulate unsharded.
    pub gradient_buffer_elements: Vec<u64>,
    /// Elements of the terms of sums that arrive and are not yet added; 0 where sums need no memory of their own.
    pub num_term_elements: u64,
    /// Whether checkpoints are written while training goes on, out of a copy.
    pub copies_checkpoints: bool,
    /// Tokens of a step's micro-batches that the rank reads, each with its target; 0 where it has neither the first
    /// unit nor the last.
    pub num_tokens: u64,
    /// Tokens of a step's micro-batches of which the rank reads where their documents begin; 0 where every row is one document.
    pub num_document_starts: u64,
    /// Words of a step's micro-batches that the rank reads for an input encoder: the numbers of its inputs, and a row for each token. 0 if
    /// the rank has none.
    pub num_encoder_words: u64,
    /// Values of f32 that the loss reads beside targets, where the rank computes it: those of a step's micro-batches, and of one more into which
    /// a source of data writes.
    pub num_loss_inputs: u64,
    /// The rank's stages.
    pub stages: Vec<StageFacts>,
}

/// Peak bytes of one rank by category, planned or measured. A size beyond `u64::MAX` counts as `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankMemory {
    /// Parameters between two uses: shards and persistent units under ZeRO-3, else whole. No shards where they are cast from a master copy.
    pub parameters: u64,
    /// Gathered units, ZeRO-3.
    pub gathered: u64,
    /// Gradients, those in flight included.
    pub gradients: u64,
    /// Optimizer state, the master copy included.
    pub optimizer: u64,
    /// Saved, recomputed and streaming activations and workspaces.
    pub activations: u64,
    /// Receive and send buffers.
    pub communication: u64,
    /// The copy out of which a checkpoint is written while training goes on.
    pub checkpoint: u64,
    /// The most that exists at once: the sum, since everything is allocated before the first step.
    pub peak: u64,
}

impl RankMemory {
    /// The names of [`RankMemory::figures`], which are those of the fields.
    pub const NAMES: [&str; 8] = [
        "parameters",
        "gathered",
        "gradients",
        "optimizer",
        "activations",
        "communication",
        "checkpoint",
        "peak",
    ];

    /// The bytes of one rank, by the formulas of the module's head.
    pub fn of(rank: &RankFacts) -> Self {
        let categories = [
            rank.parameter_bytes(),
            rank.gathered_bytes(),
            rank.gradient_bytes(),
            rank.optimizer_bytes(),
            rank.activation_bytes(),
            rank.communication_bytes(),
            rank.checkpoint_bytes(),
        ];
        let [parameters, gathered, gradients, optimizer, activations, communication, checkpoint] =
            categories.map(saturate);
        let peak = saturate(categories.into_iter().fold(0, u128::saturating_add));
        Self { parameters, gathered, gradients, optimizer, activations, communication, checkpoint, peak }
    }

    /// The figures in the order of tables: the categories, then the peak.
    pub fn figures(&self) -> [u64; 8] {
        let &Self {
            parameters,
            gathered,
            gradients,
            optimizer,
            activations,
            communication,
            checkpoint,
            peak,
        } = self;
        [parameters, gathered, gradients, optimizer, activations, communication, checkpoint, peak]
    }
}

/// One category each, in bytes.
impl RankFacts {
    fn parameter_bytes(&self) -> u128 {
        let is_sharded =
            |unit: &UnitFacts| self.sharding.shards_parameters() && unit.sharding == UnitSharding::Sharded;
        let casts_shards = self.purpose == Purpose::Training && self.element_bytes.has_master_copy();
        let is_cast = |unit: &UnitFacts| casts_shards && !unit.is_frozen && is_sharded(unit);
        let at_rest = self.weights().filter(|unit| !is_cast(unit));
        let elements = sum(at_rest.map(|unit| self.held(unit, is_sharded(unit))));
        product(self.element_bytes.parameter, elements)
    }

    fn gathered_bytes(&self) -> u128 {
        if !self.sharding.shards_parameters() {
            return 0;
        }
        product(self.element_bytes.parameter, sum(self.gather_buffer_elements.iter().copied()))
    }

    fn gradient_bytes(&self) -> u128 {
        if self.purpose == Purpose::Inference {
            return 0;
        }
        let shards_gradients = self.sharding.shards_gradients();
        let is_sharded = |unit: &UnitFacts| {
            let is_whole = self.sharding.shards_parameters() && unit.sharding == UnitSharding::Whole;
            shards_gradients && !is_whole
        };
        let trained = self.units().filter(|unit| !unit.is_frozen);
        let accumulated = sum(trained.map(|unit| self.held(unit, is_sharded(unit))));
        let unreduced = if shards_gradients { sum(self.gradient_buffer_elements.iter().copied()) } else { 0 };
        product(F32_BYTES, accumulated + unreduced)
    }

    fn optimizer_bytes(&self) -> u128 {
        if self.purpose == Purpose::Inference {
            return 0;
        }
        let is_sharded = self.sharding.shards_optimizer();
        let trained = self.weights().filter(|unit| !unit.is_frozen);
        let owned = sum(trained.map(|unit| self.held(unit, is_sharded)));
        let num_master_copies = u64::from(self.element_bytes.has_master_copy());
        let num_states = self.num_optimizer_states.saturating_add(num_master_copies);
        product(F32_BYTES, product(num_states, owned))
    }

    fn activation_bytes(&self) -> u128 {
        let slots = self.stages.iter().map(StageFacts::slot_elements).fold(0, u128::saturating_add);
        let recomputed = max(self.units().map(|unit| unit.recompute_elements));
        let widest = max(self.units().map(|unit| unit.widest_activation_elements));
        let workspace = max(self.units().map(|unit| unit.workspace_elements));
        let allocated = max(self.units().map(|unit| unit.allocated_elements));
        let weight_inputs =
            self.stages.iter().map(StageFacts::weight_input_elements).fold(0, u128::saturating_add);
        let of_activation_type = slots.saturating_add(weight_inputs).saturating_add(recomputed + 2 * widest);
        let of_f32 = workspace
            + allocated
            + u128::from(self.num_loss_inputs)
            + match self.purpose {
                Purpose::Training => widest,
                Purpose::Inference => 0,
            };
        let words = 2 * u128::from(self.num_tokens)
            + u128::from(self.num_document_starts)
            + u128::from(self.num_encoder_words);
        let tokens = product(TOKEN_BYTES, words);
        product(self.element_bytes.activation, of_activation_type)
            .saturating_add(product(F32_BYTES, of_f32))
            .saturating_add(tokens)
    }

    fn communication_bytes(&self) -> u128 {
        let inputs = sum(self.stages.iter().map(|stage| stage.input_cut_elements));
        if self.purpose == Purpose::Inference {
            return product(self.element_bytes.activation, 2 * inputs);
        }
        let gradients = |stage: &StageFacts| {
            product(stage.num_gradient_receive_buffers, stage.output_cut_elements.into())
                .saturating_add(product(stage.num_gradient_send_buffers, stage.input_cut_elements.into()))
        };
        let gradients = self.stages.iter().map(gradients).fold(0, u128::saturating_add);
        let terms = product(F32_BYTES, self.num_term_elements.into());
        product(self.element_bytes.activation, gradients.saturating_add(2 * inputs)).saturating_add(terms)
    }

    fn checkpoint_bytes(&self) -> u128 {
        if self.purpose == Purpose::Inference || !self.copies_checkpoints {
            return 0;
        }
        let written = self.units().filter(|unit| unit.tying != Tying::Head);
        let of_unit = |unit: &UnitFacts| {
            let num_states = if unit.is_frozen { 0 } else { self.num_optimizer_states };
            product(num_states.saturating_add(1), self.held(unit, true).into())
        };
        let elements = written.map(of_unit).fold(0, u128::saturating_add);
        product(F32_BYTES, elements)
    }

    fn units(&self) -> impl Iterator<Item = &UnitFacts> {
        self.stages.iter().flat_map(|stage| &stage.units)
    }

    /// The units whose parameters and optimizer state are the rank's own: a weight that it uses twice comes once.
    fn weights(&self) -> impl Iterator<Item = &UnitFacts> {
        let has_embedding = self.units().any(|unit| unit.tying == Tying::Embedding);
        self.units().filter(move |unit| !(has_embedding && unit.tying == Tying::Head))
    }

    /// What the rank holds of a unit's flat buffer: its shard, or all of it.
    fn held(&self, unit: &UnitFacts, is_sharded: bool) -> u64 {
        let of = if is_sharded { shard_elements } else { padded_elements };
        of(unit.num_elements, self.sharding.data_degree)
    }
}

impl StageFacts {
    /// Activation elements in all of the stage's slots.
    fn slot_elements(&self) -> u128 {
        let saved = sum(self.units.iter().map(|unit| unit.saved_elements));
        let output = u128::from(self.output_cut_elements) + u128::from(self.local_output_elements);
        product(self.num_activation_slots, saved + output)
    }

    /// Activation elements in all of the stage's buffers of weight-gradient inputs.
    fn weight_input_elements(&self) -> u128 {
        product(self.num_weight_input_buffers, sum(self.units.iter().map(|unit| unit.weight_input_elements)))
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

fn saturate(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
