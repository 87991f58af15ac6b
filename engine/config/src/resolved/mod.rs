//! A run, resolved: every default filled in, every rule checked. Beside the command line, only `plan/from_file.rs` and the run
//! directory see the raw file.

mod checkpoint;
mod checkpointing;
mod comm;
mod data;
mod init;
mod learning;
mod name_pattern;
mod overlap_comm;
mod residency;
mod sharding;
mod vocabulary;

use std::path::PathBuf;
use std::sync::Arc;

use pipezero_schedule::ComputeOrder;
use serde::Serialize;

pub use checkpoint::{CheckpointConfig, EndSignal, OnCheckpointError};
pub use checkpointing::Checkpointing;
pub use comm::{BackendName, CommConfig, DeviceName, Link, Links, ReductionOrder};
pub use data::{DataConfig, EndToken, TokenFilesConfig};
pub use init::InitConfig;
pub use learning::{NoDecay, OptimizerConfig, SchedulerConfig, Warmup, WarmupType};
pub use name_pattern::NamePattern;
pub use overlap_comm::OverlapComm;
pub use pipezero_models::facts::PassTimes;
pub use pipezero_models::llama::Yarn;
pub use pipezero_models::{
    Ablation, GptConfig, HeadLogits, LlamaConfig, ModelConfig, RopeScaling, TimedConfig, VocabularyOptions,
};
pub use pipezero_partition::{Purpose, ReductionPolicy, UnitLayers, UnitSharding, ZeroLevel};
pub use residency::ResidencyConfig;
pub use sharding::{ShardingConfig, ShardingRule};
pub use vocabulary::VocabularyConfig;

/// Everything that a run is, with no `"auto"` and no absent key left.
///
/// The one number that a file may leave open is the data degree (`"auto"` = world / pipeline); it is fixed when the
/// file is resolved for a world size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Whether ranks are to train, or only to compute logits and losses: then they hold no gradients and no optimizer state. A run file does not say it;
    /// who resolves one does.
    #[serde(skip)]
    pub purpose: Purpose,
    /// The model.
    pub model: ModelConfig,
    /// Whether the run file says itself whether the model's head is tied, which then counts where a folder of transformers contradicts itself.
    #[serde(skip)]
    pub tie_is_written: bool,
    /// The weights that it begins with.
    #[serde(skip_serializing_if = "InitConfig::is_default")]
    pub init: InitConfig,
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
    /// Which parameters are trained; `None` = all. The others keep their weights.
    pub train_only: Option<Vec<NamePattern>>,
    /// The learning rate over the steps.
    pub scheduler: SchedulerConfig,
    /// Largest norm of all gradients; 0 switches clipping off.
    pub gradient_clipping: f64,
    /// The type of parameters and activations.
    pub precision: Precision,
    /// Which activations are recomputed instead of kept.
    pub checkpointing: Checkpointing,
    /// How the vocabulary's tables are cut, and what becomes of logits.
    #[serde(flatten)]
    pub vocabulary: VocabularyConfig,
    /// Bytes that each rank may hold; `None` = no bound for a rank.
    pub memory_bytes: Option<u64>,
    /// Memory of the host on which all ranks run; `None` = not known, or several hosts. A `level` residency stays within it.
    #[serde(skip)]
    pub host_memory_bytes: Option<u64>,
    /// When the run's state is kept.
    pub checkpoint: CheckpointConfig,
    /// What computes.
    pub device: DeviceName,
    /// How ranks communicate.
    pub comm: CommConfig,
    /// Threads of each rank.
    pub threads: usize,
    /// Optimizer steps of the run.
    pub steps: u64,
    /// Seed of initial values and data order.
    pub seed: u64,
}

impl Run {
    /// Whether its ranks take gradients and keep an optimizer.
    pub fn trains(&self) -> bool {
        self.purpose == Purpose::Training
    }

    /// The same without what belongs to a host: the threads of its ranks, and where it keeps its copies of the data and of the weights.
    pub fn on_any_host(&self) -> Self {
        let mut run = self.clone();
        run.threads = 0;
        run.data.text.clear();
        run.init.from = run.init.from.map(|_| PathBuf::new());
        let DataConfig { tokenizer, files, .. } = &mut run.data;
        let paths = tokenizer.iter_mut().chain(&mut files.tokens).chain(&mut files.validation_tokens);
        paths.for_each(|path| *path = PathBuf::new());
        run
    }
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
    pub schedule: ScheduleConfig,
    /// v: stages of each pipeline rank; 1 unless the schedule is made for more, and the most of a rank where a file
    /// places the stages.
    pub virtual_stages: usize,
    /// Which layers each stage gets.
    pub partition: PartitionConfig,
}

impl ParallelConfig {
    /// Ranks, p * d; that they can be counted is checked when the grid is made.
    pub(crate) fn num_ranks(&self) -> usize {
        self.pipeline * self.data
    }

    /// Stages of the pipeline: p * v, or those of a schedule file.
    pub fn num_stages(&self) -> usize {
        self.schedule.num_stages(self.pipeline, self.virtual_stages)
    }
}

/// A pipeline schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleConfig {
    /// `gpipe`
    #[serde(rename = "gpipe")]
    GPipe,
    /// `1f1b`
    #[serde(rename = "1f1b")]
    OneFOneB,
    /// `eager-1f1b`
    #[serde(rename = "eager-1f1b")]
    EagerOneFOneB,
    /// `interleaved`, v >= 2.
    Interleaved {
        /// Micro-batches that a rank runs through one of its stages before it turns to the next.
        group_size: usize,
    },
    /// `bfs`, v >= 2.
    Bfs,
    /// `zb-h1`
    #[serde(rename = "zb-h1")]
    ZbH1,
    /// `zb-h2`
    #[serde(rename = "zb-h2")]
    ZbH2,
    /// `zb-v`, v = 2.
    #[serde(rename = "zb-v")]
    ZbV,
    /// `{"file": ...}`: the user's own order, in PyTorch's CSV.
    File {
        /// Where it was read from.
        path: PathBuf,
        /// What it says.
        #[serde(skip)]
        order: Arc<ComputeOrder>,
    },
}

impl ScheduleConfig {
    /// Stages on `pipeline` ranks of `virtual_stages` each; a file has its own number.
    pub(crate) fn num_stages(&self, pipeline: usize, virtual_stages: usize) -> usize {
        match self {
            Self::File { order, .. } => order.placement.num_stages(),
            _ => pipeline * virtual_stages,
        }
    }

    /// Whether some backward runs as an input gradient and, apart from it, a weight gradient.
    pub fn splits_backwards(&self) -> bool {
        match self {
            Self::ZbH1 | Self::ZbH2 | Self::ZbV => true,
            Self::File { order, .. } => order.first_half().is_some(),
            Self::GPipe | Self::OneFOneB | Self::EagerOneFOneB | Self::Interleaved { .. } | Self::Bfs => {
                false
            }
        }
    }
}

/// How layers are split into stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionConfig {
    /// As equal as possible in transformer blocks; a remainder goes to the first stages.
    Uniform,
    /// Transformer blocks of each stage.
    Manual(Vec<usize>),
    /// The largest stage has as few parameters as can be.
    Parameters,
    /// As equal as possible in layers whose name this regular expression matches, whatever the case.
    Type(String),
    /// The slowest stage takes as little time as can be, within the memory of a rank.
    Balanced,
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

/// What is sharded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZeroConfig {
    /// The level.
    pub level: ZeroLevel,
    /// How large units are.
    pub unit_layers: UnitLayers,
    /// Which gathered units stay.
    pub resident_units: ResidencyConfig,
    /// How many uses ahead a gather is issued.
    pub prefetch_units: usize,
    /// What is sharded, persistent and whole.
    #[serde(flatten)]
    pub sharding: ShardingConfig,
    /// When gradients are reduced; ZeRO-0 and ZeRO-1: `Last`, ZeRO-2: `Every`.
    pub reduce: ReductionPolicy,
    /// Whether a gradient is reduced while the next one is computed, where gradients are reduced after every micro-batch.
    #[serde(skip_serializing_if = "OverlapComm::is_true")]
    pub overlap_comm: OverlapComm,
    /// Units whose every parameter has at most so many elements stay gathered all step; 0 = none.
    pub param_persistence_threshold: u64,
    /// Most elements that may stay gathered in this way, over the whole model: a parameter that would exceed it is sharded. As in
    /// DeepSpeed, parameters are taken in the model's order.
    pub model_persistence_threshold: u64,
}

/// The type of parameters and activations. Master weights, gradient accumulation and reduction are f32.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// f32, and no second copy of the weights.
    F32,
    /// The same, but matrix products of layers round their factors to TF32, of 10 bits behind the point.
    Tf32,
    /// bf16.
    Bf16,
    /// fp16, with a scaled loss.
    Fp16(LossScaling),
}

impl Precision {
    /// `f32`, `tf32`, `bf16` or `fp16`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Fp16(_) => "fp16",
        }
    }
}

/// How the loss is scaled in fp16: DeepSpeed's parameters, with its meanings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossScaling {
    /// The scale of the first step.
    pub initial_scale: f64,
    /// Whether it changes: halved on overflow, doubled after `window` steps without.
    pub is_dynamic: bool,
    /// Steps without overflow until the scale doubles.
    pub window: u64,
    /// Overflows until the scale is halved, the one that halves it included.
    pub hysteresis: u32,
    /// Whether a step without overflow restores the hysteresis.
    pub consecutive_hysteresis: bool,
    /// The scale is never below this.
    pub min_scale: f64,
}
