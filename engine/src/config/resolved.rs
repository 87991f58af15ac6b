//! A run, resolved: every default filled in, every rule checked. Nothing below the command line sees the raw file.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use pipezero_partition::{ReductionPolicy, ZeroLevel};

/// Everything that a run is, with no `"auto"` and no absent key left.
///
/// The one number that a file may leave open is the data degree (`"auto"` = world / pipeline); it is fixed when the
/// file is resolved for a world size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The model.
    pub model: ModelConfig,
    /// Where the text comes from.
    pub data: DataConfig,
    /// When and how much to validate.
    pub evaluation: EvaluationConfig,
    /// The grid and the schedule.
    pub parallel: ParallelConfig,
    /// Batch sizes.
    pub batch: BatchConfig,
    /// What is sharded and how it is gathered and reduced.
    pub zero: ZeroConfig,
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The learning rate over the steps.
    pub scheduler: SchedulerConfig,
    /// Largest norm of all gradients; 0 switches clipping off.
    pub gradient_clipping: f64,
    /// How ranks talk.
    pub comm: CommConfig,
    /// Threads of each rank.
    pub threads: usize,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// Seed of initial values and data order.
    pub seed: u64,
}

/// The model's family and sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelConfig {
    /// GPT-2: learned positions, pre-LN, tanh GELU, biases.
    Gpt2(GptConfig),
    /// Token embedding, one linear layer and GELU per layer and token, head: the smallest model, for tests and studies.
    Mlp(GptConfig),
}

impl ModelConfig {
    /// The sizes, whatever the family.
    pub fn sizes(&self) -> &GptConfig {
        match self {
            Self::Gpt2(sizes) | Self::Mlp(sizes) => sizes,
        }
    }
}

/// Sizes, under Megatron's names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GptConfig {
    /// Transformer blocks.
    pub num_layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Tokens of a sequence.
    pub seq_length: usize,
    /// Token numbers are below this.
    pub vocab_size: usize,
    /// Whether the head uses the embedding's weight.
    pub tie_embeddings: bool,
    /// Standard deviation of the initial weights.
    pub init_std: f64,
}

/// The text and its split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataConfig {
    /// Files, folders and globs, made absolute against the run file's folder.
    pub text: Vec<PathBuf>,
    /// Share of the text kept for validation, in interleaved blocks of each file.
    pub validation: f64,
}

/// When to validate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationConfig {
    /// Every so many steps; 0 = only at the end.
    pub every: u64,
    /// Batches of `train_batch_size` sequences each time.
    pub batches: u64,
}

/// The grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParallelConfig {
    /// Pipeline degree, p.
    pub pipeline: usize,
    /// Data degree, d.
    pub data: usize,
    /// The pipeline schedule.
    pub schedule: ScheduleName,
    /// Which layers each stage gets.
    pub partition: PartitionConfig,
}

/// A pipeline schedule by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleName {
    /// `gpipe`
    #[serde(rename = "gpipe")]
    GPipe,
    /// `1f1b`
    #[serde(rename = "1f1b")]
    OneFOneB,
}

/// How layers are split into stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionConfig {
    /// As equal as possible in transformer blocks; a remainder goes to the first stages.
    Uniform,
    /// Transformer blocks of each stage.
    Manual(Vec<usize>),
}

/// Batch sizes; `train_batch_size = micro_batch_size * num_micro_batches * data degree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchConfig {
    /// Sequences of a step over all data ranks.
    pub train_batch_size: usize,
    /// Sequences of one micro-batch of one data rank.
    pub micro_batch_size: usize,
    /// Micro-batches of a step, `gradient_accumulation_steps`.
    pub num_micro_batches: usize,
}

/// Which gathered units stay, ZeRO-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidencyConfig {
    /// Resharded after every use.
    Strict,
    /// At most so many units, those in use and prefetched included.
    Units(usize),
}

/// What is sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ZeroConfig {
    /// The level.
    #[serde(serialize_with = "level_number")]
    pub level: ZeroLevel,
    /// Transformer blocks of a unit.
    pub unit_layers: usize,
    /// Which gathered units stay.
    pub resident_units: ResidencyConfig,
    /// How many uses ahead a gather is issued.
    pub prefetch_units: usize,
    /// When gradients are reduced; ZeRO-0 and ZeRO-1: `Last`, ZeRO-2: `Every`.
    #[serde(serialize_with = "policy_name")]
    pub reduce: ReductionPolicy,
}

/// The optimizer and its hyper-parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerConfig {
    /// AdamW, arXiv:1711.05101; DeepSpeed's `Adam` means it too.
    #[serde(rename = "AdamW")]
    AdamW {
        /// Peak learning rate, unless the scheduler names one.
        lr: f64,
        /// Decay rates of the two moments.
        betas: (f64, f64),
        /// Added to the root of the second moment.
        eps: f64,
        /// Decoupled weight decay.
        weight_decay: f64,
        /// Which parameters are not decayed.
        no_decay: NoDecay,
    },
    /// Stochastic gradient descent with momentum, as in PyTorch.
    #[serde(rename = "SGD")]
    Sgd {
        /// Learning rate.
        lr: f64,
        /// Momentum; 0 keeps no state.
        momentum: f64,
        /// Weight decay, added to the gradient.
        weight_decay: f64,
        /// Which parameters are not decayed.
        no_decay: NoDecay,
    },
}

impl OptimizerConfig {
    /// The learning rate, unless a scheduler sets another.
    pub fn lr(&self) -> f64 {
        match *self {
            Self::AdamW { lr, .. } | Self::Sgd { lr, .. } => lr,
        }
    }

    /// Which parameters are not decayed.
    pub fn no_decay(&self) -> &NoDecay {
        match self {
            Self::AdamW { no_decay, .. } | Self::Sgd { no_decay, .. } => no_decay,
        }
    }
}

/// Which parameters are left out of weight decay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoDecay {
    /// One-dimensional parameters: biases and norms.
    OneDimensional,
    /// Parameters whose name contains one of these.
    Patterns(Vec<String>),
}

/// DeepSpeed's learning rate schedules, equal to its `lr_schedules.py` step for step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerConfig {
    /// The optimizer's rate at every step.
    Constant,
    /// Warm-up, then constant.
    #[serde(rename = "WarmupLR")]
    WarmupLr(Warmup),
    /// Warm-up, then linear to 0 at `total_num_steps`.
    #[serde(rename = "WarmupDecayLR")]
    WarmupDecayLr {
        /// The warm-up.
        warmup: Warmup,
        /// Steps until 0.
        total_num_steps: u64,
    },
    /// Linear warm-up by ratio, then cosine; ratios of the optimizer's rate.
    #[serde(rename = "WarmupCosineLR")]
    WarmupCosineLr {
        /// Steps until the minimum.
        total_num_steps: u64,
        /// Ratio at the first step.
        warmup_min_ratio: f64,
        /// Steps of the warm-up.
        warmup_num_steps: u64,
        /// Ratio at the end.
        cos_min_ratio: f64,
        /// Form of the warm-up.
        warmup_type: WarmupType,
    },
}

/// A warm-up between two rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warmup {
    /// Rate at the first step.
    pub warmup_min_lr: f64,
    /// Rate at its end.
    pub warmup_max_lr: f64,
    /// Its steps.
    pub warmup_num_steps: u64,
    /// Its form.
    pub warmup_type: WarmupType,
}

/// The form of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmupType {
    /// Logarithmic, DeepSpeed's default.
    Log,
    /// Linear.
    Linear,
}

/// How ranks talk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommConfig {
    /// The backend.
    pub backend: BackendName,
    /// Every wait is bounded by this.
    pub timeout: Duration,
}

/// A communication backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendName {
    /// Ranks are threads of this process.
    Threads,
}

// The words of `partition`, which knows nothing of files, as the run file spells them.

fn level_number<S: Serializer>(level: &ZeroLevel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(match level {
        ZeroLevel::Zero0 => 0,
        ZeroLevel::Zero1 => 1,
        ZeroLevel::Zero2 => 2,
        ZeroLevel::Zero3 => 3,
    })
}

fn policy_name<S: Serializer>(policy: &ReductionPolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match policy {
        ReductionPolicy::Every => "every",
        ReductionPolicy::Last => "last",
    })
}
