//! The small models of the parity part: few, and with every kind of operation between ranks among them.

use std::fmt;

use pipezero_config::BatchConfig;
use pipezero_config::{
    Ablation, CheckpointConfig, Checkpointing, DataConfig, EvaluationConfig, GptConfig, HeadLogits,
    InitConfig, ModelConfig, NoDecay, OptimizerConfig, OverlapComm, ParallelConfig, PartitionConfig,
    Precision, Purpose, ReductionPolicy, ResidencyConfig, Run, ScheduleConfig, SchedulerConfig,
    ShardingConfig, UnitLayers, VocabularyConfig, VocabularyOptions, ZeroConfig, ZeroLevel,
};
use pipezero_plan::Plan;

/// Data ranks of a case at most: all of them are threads of one process in its reference.
const DATA_MAX: usize = 8;
/// Sequences of a micro-batch.
const MICRO_BATCH_SIZE: usize = 2;

/// A small model on a grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ParityCase {
    pipeline: usize,
    data: usize,
    schedule: ScheduleConfig,
    virtual_stages: usize,
    level: ZeroLevel,
    is_tied: bool,
    vocab_size: usize,
    num_slices: usize,
}

impl ParityCase {
    /// The cases for a world of so many ranks: grids of its first ranks, and the largest grid that has as few layers as these models.
    pub(super) fn of_world(num_ranks: usize) -> Vec<Self> {
        use ScheduleConfig::{GPipe, Interleaved, OneFOneB, ZbH1};
        use ZeroLevel::{Zero0, Zero1, Zero2, Zero3};
        let one = Self {
            pipeline: 1,
            data: 1,
            schedule: OneFOneB,
            virtual_stages: 1,
            level: Zero0,
            is_tied: true,
            vocab_size: 17,
            num_slices: 1,
        };
        let interleaved = Interleaved { group_size: 2 };
        let pipeline = [4, 2, 1].into_iter().find(|&p| num_ranks.is_multiple_of(p) && num_ranks / p > 1);
        let pipeline = pipeline.unwrap_or(1);
        let data = (num_ranks / pipeline).min(DATA_MAX);
        let of = |pipeline, data, level| Self { pipeline, data, level, ..one.clone() };
        // Slices are cut between blocks of 1024 tokens.
        let sliced = |case: Self| Self { vocab_size: 2100, num_slices: 2, ..case };
        let mut cases = vec![
            of(2, 1, Zero0),
            sliced(Self { is_tied: false, ..of(1, 2, Zero3) }),
            Self { schedule: GPipe, ..of(2, 2, Zero1) },
            sliced(of(2, 2, Zero3)),
            Self { schedule: interleaved, virtual_stages: 2, is_tied: false, ..of(2, 2, Zero3) },
            Self { schedule: ZbH1, ..of(4, 1, Zero0) },
            of(1, 4, Zero2),
            Self { schedule: ZbH1, ..of(pipeline, data, Zero1) },
        ];
        cases.retain(|case| case.num_ranks() <= num_ranks);
        if cases.is_empty() {
            cases.push(sliced(of(1, 1, Zero3)));
        }
        cases
    }

    /// Ranks of the grid.
    pub(super) fn num_ranks(&self) -> usize {
        self.pipeline * self.data
    }

    /// The same on one pipeline rank that shards as little as the time of its reductions allows.
    pub(super) fn reference(&self) -> Self {
        let level = if self.level >= ZeroLevel::Zero2 { ZeroLevel::Zero2 } else { ZeroLevel::Zero0 };
        Self {
            pipeline: 1,
            schedule: ScheduleConfig::OneFOneB,
            virtual_stages: 1,
            level,
            num_slices: 1,
            ..self.clone()
        }
    }

    /// The plan of the case, with ranks that compute on, and are connected by, what a run has.
    pub(super) fn plan(&self, of: &Run) -> Plan {
        Plan::even_if_refused(self.run(of)).expect("the cases are valid runs")
    }

    fn run(&self, of: &Run) -> Run {
        let num_micro_batches = 4;
        Run {
            purpose: Purpose::Training,
            init: InitConfig::default(),
            model: ModelConfig::Gpt2(self.model()),
            data: DataConfig::default(),
            evaluation: EvaluationConfig { every: 0, batches: 1 },
            parallel: ParallelConfig {
                pipeline: self.pipeline,
                data: self.data,
                schedule: self.schedule.clone(),
                virtual_stages: self.virtual_stages,
                partition: PartitionConfig::Uniform,
            },
            batch: BatchConfig {
                train_batch_size: MICRO_BATCH_SIZE * num_micro_batches * self.data,
                micro_batch_size: MICRO_BATCH_SIZE,
                num_micro_batches,
            },
            zero: self.zero(),
            optimizer: OptimizerConfig::AdamW {
                lr: 1e-2,
                betas: (0.9, 0.95),
                eps: 1e-8,
                weight_decay: 0.1,
                no_decay: NoDecay::OneDimensional,
            },
            train_only: None,
            scheduler: SchedulerConfig::Constant,
            // So low that every step is clipped: then the norm shows in all weights.
            gradient_clipping: 0.05,
            precision: Precision::F32,
            checkpointing: Checkpointing::Off,
            vocabulary: VocabularyConfig::new(self.num_slices, HeadLogits::Keep),
            memory_bytes: None,
            tie_is_written: true,
            host_memory_bytes: None,
            checkpoint: CheckpointConfig::default(),
            device: of.device,
            comm: of.comm.clone(),
            threads: 1,
            steps: 2,
            seed: 7,
        }
    }

    /// Widths that no data degree divides, so that shards are padded.
    fn model(&self) -> GptConfig {
        GptConfig {
            num_layers: 5,
            hidden_size: 12,
            num_attention_heads: 3,
            seq_length: 6,
            vocab_size: self.vocab_size,
            tie_embeddings: self.is_tied,
            init_std: 0.2,
            dropout: 0.0,
            ablation: Ablation::None,
            vocabulary: VocabularyOptions::WHOLE,
        }
    }

    fn zero(&self) -> ZeroConfig {
        let reduce =
            if self.level >= ZeroLevel::Zero2 { ReductionPolicy::Every } else { ReductionPolicy::Last };
        let is_3 = self.level == ZeroLevel::Zero3;
        ZeroConfig {
            level: self.level,
            unit_layers: UnitLayers::ONE,
            resident_units: if is_3 { ResidencyConfig::Strict } else { ResidencyConfig::Units(1) },
            prefetch_units: usize::from(is_3),
            sharding: ShardingConfig::SHARDED,
            reduce,
            overlap_comm: OverlapComm::True,
            param_persistence_threshold: 0,
            model_persistence_threshold: u64::MAX,
        }
    }
}

impl fmt::Display for ParityCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pipeline, data, level, is_tied, num_slices, .. } = self;
        let schedule = match &self.schedule {
            ScheduleConfig::GPipe => "gpipe",
            ScheduleConfig::OneFOneB => "1f1b",
            ScheduleConfig::Interleaved { .. } => "interleaved",
            ScheduleConfig::ZbH1 => "zb-h1",
            _ => "another schedule",
        };
        let level = match level {
            ZeroLevel::Zero0 => 0,
            ZeroLevel::Zero1 => 1,
            ZeroLevel::Zero2 => 2,
            ZeroLevel::Zero3 => 3,
        };
        let tied = if *is_tied { ", tied" } else { "" };
        let slices = if *num_slices > 1 { ", sliced tables" } else { "" };
        write!(f, "pipeline {pipeline} x data {data}, {schedule}, ZeRO-{level}{tied}{slices}")
    }
}
