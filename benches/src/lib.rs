//! Benchmarks of pipezero; each file opens with the question that it answers. Here is what they share.

mod allocations;
mod fixed_tokens;
mod grids;
mod samples;

use std::time::Duration;

use pipezero::config::*;

pub use allocations::{LARGE_BYTES, Large, large_allocations};
pub use fixed_tokens::FixedTokens;
pub use grids::{GRIDS, Grid};
pub use samples::Samples;

/// A run to be adapted: one rank, 1F1B, ZeRO-0, AdamW, f32, units of one layer, one resident beside the one in use. The
/// model is the caller's to choose.
pub fn run() -> Run {
    Run {
        model: ModelConfig::Gpt2(GptConfig {
            num_layers: 8,
            hidden_size: 512,
            num_attention_heads: 8,
            seq_length: 256,
            vocab_size: 512,
            tie_embeddings: false,
            init_std: 0.02,
            dropout: 0.0,
            ablation: Ablation::None,
        }),
        data: DataConfig { text: Vec::new(), validation: 0.0 },
        evaluation: EvaluationConfig { every: 0, batches: 1 },
        parallel: ParallelConfig {
            pipeline: 1,
            data: 1,
            schedule: ScheduleConfig::OneFOneB,
            virtual_stages: 1,
            partition: PartitionConfig::Uniform,
        },
        batch: BatchConfig { train_batch_size: 1, micro_batch_size: 1, num_micro_batches: 1 },
        zero: ZeroConfig {
            level: ZeroLevel::Zero0,
            unit_layers: UnitLayersConfig::Layers(1),
            resident_units: ResidencyConfig::Units(2),
            prefetch_units: 1,
            reduce: ReductionPolicy::Last,
            param_persistence_threshold: 0,
            model_persistence_threshold: u64::MAX,
        },
        optimizer: OptimizerConfig::AdamW {
            lr: 1e-4,
            betas: (0.9, 0.95),
            eps: 1e-8,
            weight_decay: 0.1,
            no_decay: NoDecay::OneDimensional,
        },
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: 1.0,
        precision: Precision::F32,
        checkpointing: Checkpointing::Off,
        memory_bytes: None,
        comm: CommConfig { backend: BackendName::Threads, timeout: Duration::from_secs(600), links: None },
        threads: 1,
        steps: 1000,
        seed: 1,
    }
}
