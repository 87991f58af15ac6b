//! The costs file: what units and messages of a model cost on one machine, as `pipezero profile` measures it.
//!
//! Everything is keyed by what it consists of, not by where it stood: equal units share one entry, whatever their stage, and
//! a unit that is no entry is composed of several that lie side by side. What a message costs is what *the host* makes it
//! cost, beside the links that the run file imitates (`comm.links`): those are known without measuring, and a run over other
//! links needs no new file.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::file_error::{CostsFileError, CostsFileRule};
use super::ns;
use super::scatter::Scatter;
use crate::config::{Checkpointing, GptConfig, ModelConfig, OptimizerConfig, Precision, Run};

/// The version that is written and read.
pub(crate) const COSTS_VERSION: u64 = 1;

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
    #[serde(deserialize_with = "ns::any")]
    pub step_overhead_ns: u64,
    /// By how much ranks were off the means in each step, as far as that was measured.
    #[serde(default, skip_serializing_if = "Scatter::is_empty")]
    pub rank_slowness_ppm: Scatter,
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
    /// `f32`, `bf16` or `fp16`.
    pub precision: String,
    /// `AdamW` or `SGD`.
    pub optimizer: String,
    /// What is recomputed in the backward: `off`, `unit`, or of every so many layers, `2 layers`.
    pub activation_checkpointing: String,
    /// Threads of a rank.
    pub threads: u64,
}

/// A family with the sizes that decide a layer's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSizes {
    /// `gpt2`
    Gpt2(GptSizes),
    /// `mlp`
    Mlp(GptSizes),
    /// `timed`
    Timed(TimedSizes),
}

/// Sizes of a model that computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptSizes {
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Attention heads.
    pub num_attention_heads: u64,
    /// Token numbers are below this.
    pub vocab_size: u64,
    /// Whether elements are dropped; how many of them does not decide the time.
    pub dropout: bool,
}

/// Sizes and times of timed layers, as the run file gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedSizes {
    /// Parameters of a layer.
    pub parameters_per_layer: u64,
    /// Elements of the activation between two layers.
    pub activation_elements: u64,
    /// A layer's forward.
    #[serde(deserialize_with = "ns::any")]
    pub forward_ns: u64,
    /// A layer's input gradient.
    #[serde(deserialize_with = "ns::any")]
    pub backward_input_ns: u64,
    /// A layer's weight gradient.
    #[serde(deserialize_with = "ns::any")]
    pub backward_weight_ns: u64,
    /// A layer's recomputation.
    #[serde(deserialize_with = "ns::any")]
    pub recompute_ns: u64,
}

/// What the computes of a unit take, each for one micro-batch. What the measured run did not do is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitTimes {
    /// The unit's layers by kind: their names without the numbers, `h.*.attn` for every attention.
    pub layers: Vec<String>,
    /// Parameters of these layers: what else tells one unit from another.
    pub parameters: u64,
    /// `F`.
    #[serde(deserialize_with = "ns::positive")]
    pub forward_ns: u64,
    /// `B`, whole.
    #[serde(default, deserialize_with = "ns::measured", skip_serializing_if = "Option::is_none")]
    pub backward_ns: Option<u64>,
    /// `I`, in a schedule that splits backwards.
    #[serde(default, deserialize_with = "ns::measured", skip_serializing_if = "Option::is_none")]
    pub backward_input_ns: Option<u64>,
    /// `W`, in a schedule that splits backwards.
    #[serde(default, deserialize_with = "ns::measured", skip_serializing_if = "Option::is_none")]
    pub backward_weight_ns: Option<u64>,
    /// `R`, where activations are recomputed.
    #[serde(default, deserialize_with = "ns::measured", skip_serializing_if = "Option::is_none")]
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
    #[serde(deserialize_with = "ns::any")]
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

/// A kind of message: what moves it, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// `UNSHARD`.
    Unshard,
    /// `GATHER_STEP`.
    GatherAfterStep,
    /// `REDUCE`.
    Reduce,
    /// `REDUCE_LAST`.
    ReduceLast,
    /// `ALL_REDUCE`.
    AllReduce,
    /// `SEND` and `RECV` of an activation, up.
    Activation,
    /// `SEND` and `RECV` of a gradient, down.
    Gradient,
    /// `ADD_TIED`, from when both ranks have joined.
    AddTied,
    /// `GRAD_NORM`, from when all ranks have joined.
    GradientNorm,
}

/// As the file spells it.
impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unshard => "unshard",
            Self::GatherAfterStep => "gather_after_step",
            Self::Reduce => "reduce",
            Self::ReduceLast => "reduce_last",
            Self::AllReduce => "all_reduce",
            Self::Activation => "activation",
            Self::Gradient => "gradient",
            Self::AddTied => "add_tied",
            Self::GradientNorm => "gradient_norm",
        })
    }
}

/// What a message of a size costs beside an imitated link. The simulator's words:
/// [`pipezero_schedule::simulate::Passage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizedTimes {
    /// Bytes of the whole buffer, padding included, whatever part of it a rank sends.
    pub bytes: u64,
    /// The rank's own time to issue it.
    #[serde(deserialize_with = "ns::any")]
    pub issue_ns: u64,
    /// How long it occupies its link.
    #[serde(deserialize_with = "ns::any")]
    pub occupied_ns: u64,
    /// How much later it is there.
    #[serde(deserialize_with = "ns::any")]
    pub latency_ns: u64,
    /// The rank's own time to take it in.
    #[serde(deserialize_with = "ns::any")]
    pub landing_ns: u64,
}

/// What is read before it is known that the rest can be.
#[derive(Deserialize)]
#[serde(expecting = "a costs file, which is one object")]
struct Versioned {
    version: u64,
}

impl CostsFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`CostsFileError`]: it cannot be read, is not JSON of this version, or breaks a rule.
    pub fn load(path: &Path) -> Result<Self, CostsFileError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) => Err(CostsFileError::Unreadable { name, reason: error.to_string() }),
        }
    }

    /// Reads a text that messages call `name`.
    ///
    /// # Errors
    /// As [`CostsFile::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, CostsFileError> {
        let syntax = |error: &serde_json::Error| CostsFileError::syntax(name, error);
        let Versioned { version } = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        let broken = |rule| CostsFileError::Rule { name: name.to_owned(), rule };
        if version != COSTS_VERSION {
            return Err(broken(CostsFileRule::Version { version }));
        }
        let file: Self = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        file.check().map_err(broken)?;
        Ok(file)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a costs file has nothing that JSON has not");
        text.push('\n');
        text
    }

    /// What JSON cannot say: that entries are there, and no two for one thing.
    fn check(&self) -> Result<(), CostsFileRule> {
        if self.units.is_empty() {
            return Err(CostsFileRule::NoUnits);
        }
        if let Some((step, ranks)) = self.rank_slowness_ppm.unlike(self.host.ranks) {
            return Err(CostsFileRule::RanksOfStep { step, ranks, expected: self.host.ranks });
        }
        for (index, unit) in self.units.iter().enumerate() {
            let layers = || unit.layers.clone();
            if unit.layers.is_empty() {
                return Err(CostsFileRule::NoLayers { index });
            }
            if unit.backward_ns.is_none()
                && (unit.backward_input_ns.is_none() || unit.backward_weight_ns.is_none())
            {
                return Err(CostsFileRule::NoBackward { layers: layers() });
            }
            let is_same =
                |other: &UnitTimes| other.layers == unit.layers && other.parameters == unit.parameters;
            if self.units[..index].iter().any(is_same) {
                return Err(CostsFileRule::UnitTwice { layers: layers() });
            }
        }
        for (index, &MessageTimes { kind, ranks, ref sizes }) in self.messages.iter().enumerate() {
            if ranks == 0 || sizes.is_empty() || !sizes.is_sorted_by(|a, b| a.bytes < b.bytes) {
                return Err(CostsFileRule::Sizes { kind, ranks });
            }
            if self.messages[..index].iter().any(|other| (other.kind, other.ranks) == (kind, ranks)) {
                return Err(CostsFileRule::MessageTwice { kind, ranks });
            }
        }
        Ok(())
    }
}

impl Workload {
    /// What of a run decides its computes' times.
    pub fn of(run: &Run) -> Self {
        Self {
            model: ModelSizes::of(&run.model),
            seq_length: run.model.seq_length() as u64,
            micro_batch_size: run.batch.micro_batch_size as u64,
            precision: match run.precision {
                Precision::F32 => "f32",
                Precision::Bf16 => "bf16",
                Precision::Fp16(_) => "fp16",
            }
            .to_owned(),
            optimizer: match run.optimizer {
                OptimizerConfig::AdamW { .. } => "AdamW",
                OptimizerConfig::Sgd { .. } => "SGD",
            }
            .to_owned(),
            activation_checkpointing: match run.checkpointing {
                Checkpointing::Off => "off".to_owned(),
                Checkpointing::Unit => "unit".to_owned(),
                Checkpointing::Layers(layers) => format!("{layers} layers"),
            },
            threads: run.threads as u64,
        }
    }
}

impl ModelSizes {
    fn of(model: &ModelConfig) -> Self {
        let gpt = |sizes: &GptConfig| GptSizes {
            hidden_size: sizes.hidden_size as u64,
            num_attention_heads: sizes.num_attention_heads as u64,
            vocab_size: sizes.vocab_size as u64,
            dropout: sizes.dropout > 0.0,
        };
        // Times of a run file end long before a u64 does.
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match model {
            ModelConfig::Gpt2(sizes) => Self::Gpt2(gpt(sizes)),
            ModelConfig::Mlp(sizes) => Self::Mlp(gpt(sizes)),
            ModelConfig::Timed(timed) => Self::Timed(TimedSizes {
                parameters_per_layer: timed.parameters_per_layer as u64,
                activation_elements: timed.activation_elements as u64,
                forward_ns: ns(timed.forward),
                backward_input_ns: ns(timed.backward_input),
                backward_weight_ns: ns(timed.backward_weight),
                recompute_ns: ns(timed.recompute),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
