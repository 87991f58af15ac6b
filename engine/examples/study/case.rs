//! The case: 48 layers on 4 pipeline ranks, at two data degrees, on H100s.
//!
//! Runs are made by hand rather than read from a file, because a file's rules refuse ZeRO-2 with a pipeline, and the study
//! is to show what it would cost.

use std::time::Duration;

use pipezero::config::*;
use pipezero::plan::costs::{DeviceSpec, Network};

/// Stages, and the pipeline ranks that they are placed on.
pub(crate) const PIPELINE: usize = 4;
/// Data degrees of the two grids.
pub(crate) const DATA_DEGREES: [usize; 2] = [2, 8];
/// Micro-batches of a step and data rank, where there is a pipeline.
pub(crate) const MICRO_BATCHES: usize = 8;
/// Tokens of a sequence; a micro-batch is one sequence.
pub(crate) const SEQ_LENGTH: usize = 2048;
/// Transformer layers of the model and of a stage.
pub(crate) const LAYERS: usize = 48;
pub(crate) const STAGE_LAYERS: usize = LAYERS / PIPELINE;
/// Width of the model: that of GPT-NeoX-20B (arXiv:2204.06745), which has 44 layers.
pub(crate) const HIDDEN: usize = 6144;
/// Devices of a node.
const NODE_RANKS: usize = 8;
/// Memory of a device.
pub(crate) const DEVICE_BYTES: u64 = 80 << 30;

/// Bytes of an element of an activation, bf16.
pub(crate) const ELEMENT_BYTES: usize = 2;

/// Where the grid's ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// On nodes of eight, data ranks side by side.
    NodesOfEight,
    /// Each on a node of its own.
    Apart,
}

impl Placed {
    pub(crate) const ALL: [Self; 2] = [Self::NodesOfEight, Self::Apart];

    /// The device: apart, every rank is a node.
    pub(crate) fn device(self) -> DeviceSpec {
        let device = DeviceSpec::by_name("h100").expect("the table of devices has an H100");
        let ranks_per_node = match self {
            Self::NodesOfEight => NODE_RANKS,
            Self::Apart => 1,
        };
        DeviceSpec { network: Network { ranks_per_node, ..device.network }, ..device }
    }
}

/// The run of a step of 8 micro-batches on `pipeline` x `data` ranks; without a pipeline the same number of ranks shares
/// the same batch.
pub(crate) fn run(pipeline: usize, data: usize, zero: ZeroConfig) -> Run {
    let num_micro_batches = MICRO_BATCHES * pipeline / PIPELINE;
    Run {
        purpose: Purpose::Training,
        init: InitConfig::default(),
        model: ModelConfig::Gpt2(GptConfig {
            num_layers: LAYERS,
            hidden_size: HIDDEN,
            num_attention_heads: 64,
            seq_length: SEQ_LENGTH,
            vocab_size: 50_432,
            tie_embeddings: false,
            init_std: 0.02,
            dropout: 0.0,
            ablation: Ablation::None,
            vocabulary: VocabularyOptions::WHOLE,
        }),
        data: DataConfig::default(),
        evaluation: EvaluationConfig { every: 0, batches: 1 },
        parallel: ParallelConfig {
            pipeline,
            data,
            schedule: ScheduleConfig::OneFOneB,
            virtual_stages: 1,
            partition: PartitionConfig::Uniform,
        },
        batch: BatchConfig {
            train_batch_size: num_micro_batches * data,
            micro_batch_size: 1,
            num_micro_batches,
        },
        zero,
        optimizer: OptimizerConfig::AdamW {
            lr: 1e-4,
            betas: (0.9, 0.95),
            eps: 1e-8,
            weight_decay: 0.1,
            no_decay: NoDecay::OneDimensional,
        },
        train_only: None,
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: 1.0,
        precision: Precision::Bf16,
        checkpointing: Checkpointing::Off,
        vocabulary: VocabularyConfig::WHOLE,
        memory_bytes: None,
        tie_is_written: true,
        host_memory_bytes: None,
        checkpoint: CheckpointConfig::default(),
        device: DeviceName::Cpu,
        comm: CommConfig {
            backend: BackendName::Threads,
            timeout: Duration::from_secs(600),
            reduction: ReductionOrder::Ordered,
            port: None,
            ranks_per_node: None,
            first_rank: None,
            links: None,
        },
        threads: 1,
        steps: 1,
        seed: 1,
    }
}
