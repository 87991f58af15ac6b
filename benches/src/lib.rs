//! Benchmarks of pipezero; each file opens with the question that it answers. Here is what they share.

mod allocations;
mod grids;
mod samples;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pipezero_config::*;
use pipezero_run::data::{BatchSource, TokenBatch};

pub use allocations::{LARGE_BYTES, Large, large_allocations};
pub use grids::{GRIDS, Grid, reduction};
pub use samples::Samples;

/// What users wrote behind a benchmark's name; cargo adds options of its own.
pub fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect()
}

/// The names that users wrote behind a benchmark's name, of those there are; all of them where users wrote none.
///
/// # Errors
/// With a name that is none of them.
pub fn chosen(names: &[&'static str]) -> Result<Vec<&'static str>, Box<dyn Error>> {
    let wanted = arguments();
    match wanted.iter().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => Err(format!("`{unknown}` is unknown; there are {}", names.join(", ")).into()),
        None if wanted.is_empty() => Ok(names.to_vec()),
        None => Ok(names.iter().copied().filter(|name| wanted.iter().any(|wanted| wanted == name)).collect()),
    }
}

/// Whether a benchmark met its targets, as the status that it exits with; prints an error.
pub fn exit_code(is_met: Result<bool, Box<dyn Error>>) -> ExitCode {
    match is_met {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => eprintln!("{error}"),
    }
    ExitCode::FAILURE
}

/// The same tokens in every micro-batch.
pub fn fixed_tokens(vocab_size: usize) -> Arc<dyn BatchSource> {
    let token = move |position: usize| (position * 97 % vocab_size) as u32;
    Arc::new(move |_: u64, _: usize, _: usize, batch: &mut TokenBatch| {
        let places = batch.inputs.iter_mut().zip(&mut batch.targets).enumerate();
        places.for_each(|(place, (input, target))| (*input, *target) = (token(place), token(place + 1)));
        Ok(())
    })
}

/// As much time in every pass.
pub fn each_pass(time: Duration) -> PassTimes {
    PassTimes { forward: time, backward_input: time, backward_weight: time, recompute: time }
}

/// GPT-2 of 8 layers, width 512, 8 heads, 256 tokens and 512 token numbers.
pub const GPT2: GptConfig = GptConfig {
    num_layers: 8,
    hidden_size: 512,
    num_attention_heads: 8,
    seq_length: 256,
    vocab_size: 512,
    tie_embeddings: false,
    init_std: 0.02,
    dropout: 0.0,
    ablation: Ablation::None,
    vocabulary: VocabularyOptions::WHOLE,
};

/// A run to be adapted: one rank, 1F1B, ZeRO-0, AdamW, f32, units of one layer, one resident beside the one in use,
/// and the model above.
pub fn run() -> Run {
    Run {
        purpose: Purpose::Training,
        init: InitConfig::default(),
        model: ModelConfig::Gpt2(GPT2),
        data: DataConfig::default(),
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
            unit_layers: UnitLayers::ONE,
            resident_units: ResidencyConfig::Units(2),
            prefetch_units: 1,
            sharding: ShardingConfig::SHARDED,
            reduce: ReductionPolicy::Last,
            overlap_comm: OverlapComm::True,
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
        train_only: None,
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: 1.0,
        precision: Precision::F32,
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
        steps: 1000,
        seed: 1,
    }
}
