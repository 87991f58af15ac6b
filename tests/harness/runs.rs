//! Small runs, made without a file.

use std::path::Path;
use std::time::Duration;

use pipezero_config::*;

use crate::Schedule;

/// Whose layers a small run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// Llama, with what Llamas may have.
    Llama,
    /// The MLP family.
    Mlp,
}

/// What differs between the runs of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Pipeline degree.
    pub pipeline: usize,
    /// Data degree.
    pub data: usize,
    /// Micro-batches of a step and data rank.
    pub num_micro_batches: usize,
    /// Schedule.
    pub schedule: Schedule,
    /// ZeRO.
    pub zero: ZeroConfig,
    /// Family.
    pub family: Family,
    /// Whether the head uses the embedding's weight.
    pub tied: bool,
    /// Threads of a rank.
    pub threads: usize,
    /// Transformer blocks.
    pub num_layers: usize,
    /// Type of parameters and activations.
    pub precision: Precision,
    /// What is recomputed.
    pub checkpointing: Checkpointing,
    /// What is dropped.
    pub dropout: f64,
    /// Whether tokens see their own document alone.
    pub document_attention: bool,
    /// Token numbers.
    pub vocab_size: usize,
    /// How the vocabulary's tables are cut, and what becomes of logits.
    pub vocabulary: VocabularyConfig,
    /// Patterns of the layers that are trained; without one all are.
    pub train_only: &'static [&'static str],
}

impl Case {
    /// One rank, two micro-batches, nothing sharded.
    pub const ONE_RANK: Self = Self {
        pipeline: 1,
        data: 1,
        num_micro_batches: 2,
        schedule: Schedule::OneFOneB,
        zero: NO_ZERO,
        family: Family::Gpt2,
        tied: false,
        threads: 1,
        num_layers: 5,
        precision: Precision::F32,
        checkpointing: Checkpointing::Off,
        dropout: 0.0,
        document_attention: false,
        vocab_size: 17,
        vocabulary: VocabularyConfig::WHOLE,
        train_only: &[],
    };

    /// The same on one pipeline rank that shards as little as the reduction policy allows and recomputes nothing: what
    /// every grid and feature has to equal, to the bit.
    pub fn reference(self) -> Self {
        let level = match self.zero.reduce {
            ReductionPolicy::Last => ZeroLevel::Zero0,
            ReductionPolicy::Every => ZeroLevel::Zero2,
        };
        Self {
            pipeline: 1,
            schedule: Schedule::OneFOneB,
            zero: ZeroConfig { level, reduce: self.zero.reduce, ..NO_ZERO },
            checkpointing: Checkpointing::Off,
            vocabulary: VocabularyConfig::WHOLE,
            ..self
        }
    }
}

/// ZeRO-0: the values of settings that a test does not care about.
pub const NO_ZERO: ZeroConfig = ZeroConfig {
    level: ZeroLevel::Zero0,
    unit_layers: UnitLayers::ONE,
    resident_units: ResidencyConfig::Units(1),
    prefetch_units: 0,
    sharding: ShardingConfig::SHARDED,
    reduce: ReductionPolicy::Last,
    overlap_comm: OverlapComm::True,
    param_persistence_threshold: 0,
    model_persistence_threshold: u64::MAX,
};

/// fp16 with a scale that does not overflow in small runs.
pub const FP16: Precision = Precision::Fp16(LossScaling {
    initial_scale: 256.0,
    is_dynamic: false,
    window: 1000,
    hysteresis: 2,
    consecutive_hysteresis: false,
    min_scale: 1.0,
});

/// ZeRO at `level` with units of one block, reducing gradients when the run file's defaults do.
pub fn zero(level: ZeroLevel, resident_units: ResidencyConfig, prefetch_units: usize) -> ZeroConfig {
    let reduce = if level >= ZeroLevel::Zero2 { ReductionPolicy::Every } else { ReductionPolicy::Last };
    ZeroConfig { level, resident_units, prefetch_units, reduce, ..NO_ZERO }
}

/// The limit of the gradient norm, low enough to bite at every step.
pub const GRADIENT_CLIPPING: f64 = 0.05;

/// A GPT-2 whose widths need padding at every data degree: 5 blocks, width 12, 3 heads, 6 tokens, 17 token numbers.
pub fn small_gpt(tied: bool) -> GptConfig {
    GptConfig {
        num_layers: 5,
        hidden_size: 12,
        num_attention_heads: 3,
        seq_length: 6,
        vocab_size: 17,
        tie_embeddings: tied,
        init_std: 0.2,
        dropout: 0.0,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::WHOLE,
    }
}

/// A Llama of these sizes whose heads of queries share one of keys, with biases and norms of heads; fewer parameters than the GPT-2 has.
fn small_llama(gpt: GptConfig) -> LlamaConfig {
    LlamaConfig {
        gpt,
        ffn_hidden_size: 20,
        num_query_groups: 1,
        kv_channels: 6,
        norm_epsilon: 1e-5,
        rotary_base: 100.0,
        rope_scaling: RopeScaling::Llama3 {
            factor: 4.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8,
        },
        add_qkv_bias: true,
        add_proj_bias: true,
        add_mlp_bias: false,
        qk_layernorm: true,
    }
}

/// A small run in which everything that shapes numbers is at work: clipping that bites at every step, decay groups,
/// a warm-up.
pub fn small_run(case: Case) -> Run {
    let micro_batch_size = 2;
    let sizes = GptConfig {
        num_layers: case.num_layers,
        dropout: case.dropout,
        vocab_size: case.vocab_size,
        ..small_gpt(case.tied)
    };
    Run {
        purpose: Purpose::Training,
        init: InitConfig::default(),
        model: match case.family {
            Family::Gpt2 => ModelConfig::Gpt2(sizes),
            Family::Llama => ModelConfig::Llama(small_llama(sizes)),
            Family::Mlp => ModelConfig::Mlp(sizes),
        },
        data: DataConfig { document_attention: case.document_attention, ..DataConfig::default() },
        evaluation: EvaluationConfig { every: 0, batches: 1 },
        parallel: ParallelConfig {
            pipeline: case.pipeline,
            data: case.data,
            schedule: case.schedule.config(case.pipeline),
            virtual_stages: case.schedule.virtual_stages(),
            partition: PartitionConfig::Uniform,
        },
        batch: BatchConfig {
            train_batch_size: micro_batch_size * case.num_micro_batches * case.data,
            micro_batch_size,
            num_micro_batches: case.num_micro_batches,
        },
        zero: case.zero,
        optimizer: OptimizerConfig::AdamW {
            lr: 1e-2,
            betas: (0.9, 0.95),
            eps: 1e-8,
            weight_decay: 0.1,
            no_decay: NoDecay::OneDimensional,
        },
        scheduler: SchedulerConfig::WarmupLr(Warmup {
            warmup_min_lr: 1e-4,
            warmup_max_lr: 1e-2,
            warmup_num_steps: 4,
            warmup_type: WarmupType::Linear,
        }),
        train_only: (!case.train_only.is_empty()).then(|| patterns(case.train_only)),
        gradient_clipping: GRADIENT_CLIPPING,
        precision: case.precision,
        checkpointing: case.checkpointing,
        vocabulary: case.vocabulary,
        memory_bytes: None,
        tie_is_written: true,
        host_memory_bytes: None,
        checkpoint: CheckpointConfig::default(),
        device: DeviceName::Cpu,
        comm: CommConfig {
            backend: BackendName::Threads,
            timeout: Duration::from_secs(60),
            reduction: ReductionOrder::Ordered,
            port: None,
            ranks_per_node: None,
            first_rank: None,
            links: None,
        },
        threads: case.threads,
        steps: 5,
        seed: 7,
    }
}

fn patterns(train_only: &[&str]) -> Vec<NamePattern> {
    train_only.iter().map(|of| NamePattern::new(of).expect("a regular expression")).collect()
}

/// SGD: AdamW would turn the rounding of gradients near zero into steps.
pub const SGD: OptimizerConfig =
    OptimizerConfig::Sgd { lr: 0.5, momentum: 0.9, weight_decay: 0.01, no_decay: NoDecay::OneDimensional };

/// A small run at a constant rate.
pub fn at_rate(rate: f64, mut run: Run) -> Run {
    let OptimizerConfig::AdamW { lr, .. } = &mut run.optimizer else { panic!("small runs use AdamW") };
    *lr = rate;
    Run { scheduler: SchedulerConfig::Constant, ..run }
}

/// An example that pages name, with these values set.
pub fn example(name: &str, arguments: &[&str]) -> Run {
    loaded(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/configs").join(name), arguments)
}

/// The run of a file, with these values set.
pub fn loaded(path: &Path, arguments: &[&str]) -> Run {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let file = RunFile::load(path).and_then(|file| file.set(&arguments)).expect("well-formed");
    file.resolve(Resources::this_host()).expect("a valid run file").0
}

/// Grids with every kind of operation between ranks, and every schedule that uses buffers in another way.
pub fn grids() -> Vec<Case> {
    use ZeroLevel::{Zero1, Zero2, Zero3};
    let strict = zero(Zero3, ResidencyConfig::Strict, 1);
    let grid = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero: strict.clone(), ..Case::ONE_RANK };
    let interleaved = Schedule::Interleaved { virtual_stages: 2 };
    let one_gradient_buffer =
        ZeroConfig { overlap_comm: OverlapComm::False, ..zero(Zero3, ResidencyConfig::Units(1), 0) };
    let in_parts = ZeroConfig { param_persistence_threshold: 48, ..strict.clone() };
    vec![
        grid.clone(),
        Case { tied: true, precision: Precision::Bf16, ..grid.clone() },
        Case {
            zero: zero(Zero3, ResidencyConfig::Units(4), 2),
            checkpointing: Checkpointing::Unit,
            ..grid.clone()
        },
        Case { zero: ZeroConfig { reduce: ReductionPolicy::Last, ..strict }, tied: true, ..grid.clone() },
        Case { zero: one_gradient_buffer, tied: true, ..grid.clone() },
        Case { zero: zero(Zero1, ResidencyConfig::Units(1), 0), schedule: Schedule::GPipe, ..grid.clone() },
        Case {
            pipeline: 1,
            data: 3,
            zero: zero(Zero2, ResidencyConfig::Units(1), 0),
            precision: FP16,
            ..grid.clone()
        },
        Case { zero: NO_ZERO, schedule: Schedule::ZbH1, dropout: 0.1, ..grid.clone() },
        Case { schedule: interleaved, num_micro_batches: 4, ..grid.clone() },
        Case { pipeline: 4, data: 1, schedule: Schedule::Eager, num_micro_batches: 5, ..grid.clone() },
        Case { schedule: Schedule::ZbV, tied: true, ..grid.clone() },
        // Units of two kinds.
        Case { zero: in_parts.clone(), precision: Precision::Bf16, ..grid.clone() },
        Case { zero: in_parts, family: Family::Llama, precision: Precision::Bf16, ..grid.clone() },
        Case { family: Family::Llama, tied: true, schedule: Schedule::ZbV, ..grid },
    ]
}

/// The small run of a case, for two steps.
pub fn two_steps(case: Case) -> Run {
    Run { steps: 2, ..small_run(case) }
}
