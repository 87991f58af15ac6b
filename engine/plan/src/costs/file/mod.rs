//! The costs file: what units and messages of a model cost on one machine, as `pipezero profile` measures it.
//!
//! Everything is keyed by what it consists of, not by where it stood: equal units share one entry, whatever their stage, and
//! a unit without an entry is composed of several entries side by side. What a message costs is what *the host* makes it
//! cost, beside the links that the run file emulates (`comm.links`): those are known without measuring, and a run over other
//! links needs no new file.

mod load;

use pipezero_config::DeviceName;
use serde::{Deserialize, Serialize};

use super::message_kind::MessageKind;
use super::nanoseconds::Nanoseconds;
use super::slowness::RankSlowness;
use super::whole::{any_ns, measured_ns, positive_ns};

/// The version that is written and read.
pub const COSTS_VERSION: u64 = 1;

/// Bytes of a file at most. Twelve steps of a thousand ranks are 0.1 MB, and reporting a mistake takes a tree of the whole
/// text, several times its size.
pub const COSTS_BYTES_MAX: u64 = 64 << 20;

/// Measured costs; all times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a costs file, which is one object")]
pub struct CostsFile {
    /// 1.
    pub version: u64,
    /// Where it was measured.
    pub host: Host,
    /// What was measured.
    pub workload: Workload,
    /// What a step takes beside its program: reading the batch, and talking to the ranks.
    #[serde(deserialize_with = "any_ns")]
    pub step_overhead_ns: u64,
    /// By how much ranks were off the means in each step, as far as that was measured.
    #[serde(default, skip_serializing_if = "RankSlowness::is_empty")]
    pub rank_slowness_ppm: RankSlowness,
    /// What units cost; no two of equal layers and parameters.
    pub units: Vec<UnitTimes>,
    /// What messages cost; no two of equal kind and number of ranks.
    pub messages: Vec<MessageTimes>,
}

/// The machine, and how busy it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name, for people.
    pub name: String,
    /// Its cores.
    pub cores: u64,
    /// The ranks that were active together.
    pub ranks: u64,
    /// The GPUs that they computed on, for people; `None` where they computed on cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
}

/// What decides the time of a unit's computes beside its layers. Costs are of one workload and no other.
///
/// The number of layers is not part of it, nor is anything of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Family and sizes.
    pub model: ModelSizes,
    /// Tokens of a sequence.
    pub seq_length: u64,
    /// Sequences of a micro-batch.
    pub micro_batch_size: u64,
    /// `f32`, `tf32`, `bf16` or `fp16`.
    pub precision: String,
    /// `AdamW` or `SGD`.
    pub optimizer: String,
    /// What is recomputed in the backward: `off`, `unit`, or of every so many layers, `2 layers`.
    pub activation_checkpointing: String,
    /// Whether tokens attend to their own document alone; files that do not say so are of tokens that attend to their whole row.
    #[serde(default)]
    pub document_attention: bool,
    /// What ranks compute on; files that do not say so are of cores.
    #[serde(default = "cores")]
    pub device: DeviceName,
    /// Threads of a rank; 1 on a GPU, where nothing depends on them.
    pub threads: u64,
}

fn cores() -> DeviceName {
    DeviceName::Cpu
}

/// The family with the sizes that decide a layer's time.
pub type ModelSizes = pipezero_models::family::ModelSizes<Nanoseconds>;

/// What the computes of a unit take, each for one micro-batch. What the measured run did not do is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitTimes {
    /// The unit's layers by kind: their names without the numbers, `h.*.attn` for every attention.
    pub layers: Vec<String>,
    /// Parameters of these layers: units with the same kinds of layers may differ in these.
    pub parameters: u64,
    /// Whether they are not trained: `B` and `I` are then the gradient of the input alone, and `W` is nothing. In front of all that is trained there
    /// is no backward, and the entry has none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// Parameters that are not trained, in a unit of which others are: its weight gradient is that of the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen_parameters: u64,
    /// `F`.
    #[serde(deserialize_with = "positive_ns")]
    pub forward_ns: u64,
    /// `B`, whole.
    #[serde(default, deserialize_with = "measured_ns", skip_serializing_if = "Option::is_none")]
    pub backward_ns: Option<u64>,
    /// `I`, in a schedule that splits backwards.
    #[serde(default, deserialize_with = "measured_ns", skip_serializing_if = "Option::is_none")]
    pub backward_input_ns: Option<u64>,
    /// `W`, in a schedule that splits backwards.
    #[serde(default, deserialize_with = "measured_ns", skip_serializing_if = "Option::is_none")]
    pub backward_weight_ns: Option<u64>,
    /// `R`, where activations are recomputed.
    #[serde(default, deserialize_with = "measured_ns", skip_serializing_if = "Option::is_none")]
    pub recompute_ns: Option<u64>,
    /// The unit's part of `GRAD_NORM`: the squares of one rank's shard of its gradient.
    pub gradient_norm: PerElement,
    /// `STEP`, on what one rank owns.
    pub optimizer_step: PerElement,
}

/// A time in proportion to a number of elements, which depends on how the unit is sharded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerElement {
    /// Elements, padding included.
    pub elements: u64,
    /// What they take together.
    #[serde(deserialize_with = "any_ns")]
    pub ns: u64,
}

/// What messages of one kind between so many ranks cost, by size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageTimes {
    /// The kind.
    pub kind: MessageKind,
    /// Ranks that take part; 2 for a send, 1 where a collective has no other member.
    pub ranks: u64,
    /// What a message costs, at least one size, ascending.
    pub sizes: Vec<SizedTimes>,
}

/// Measured cost of one message size, without the emulated link's delay. The simulator's words:
/// [`pipezero_schedule::simulate::MessageCost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizedTimes {
    /// Bytes of the whole buffer, padding included, whatever part of it a rank sends.
    pub bytes: u64,
    /// The rank's own time to issue it.
    #[serde(deserialize_with = "any_ns")]
    pub issue_ns: u64,
    /// How long it occupies its link.
    #[serde(deserialize_with = "any_ns")]
    pub occupied_ns: u64,
    /// How much later it arrives.
    #[serde(deserialize_with = "any_ns")]
    pub latency_ns: u64,
    /// The rank's own time to take it in.
    #[serde(deserialize_with = "any_ns")]
    pub landing_ns: u64,
    /// Whether no message of the run is of this size: it was sent beside the run, and its times are brought to the run's level.
    #[serde(default, skip_serializing_if = "is_false")]
    pub probed: bool,
}

impl UnitTimes {
    /// Whether its backward does anything; if not, it stood in front of all that was trained.
    pub fn has_backward(&self) -> bool {
        self.backward_ns.or(self.backward_input_ns).is_some()
    }
}

/// Whether a number is left out of the file.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Whether a mark is left out of the file.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(mark: &bool) -> bool {
    !mark
}

#[cfg(test)]
pub(super) mod tests;
