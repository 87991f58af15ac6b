//! The workload of a run: what a costs file must have been measured on to be of it.

use pipezero_config::{Checkpointing, DeviceName, HeadLogits, OptimizerConfig, Run};

use super::file::Workload;
use crate::tokens_read::reads_documents;

impl Workload {
    /// What of a run decides its computes' times.
    pub fn of(run: &Run) -> Self {
        Self {
            model: (&run.model).into(),
            seq_length: run.model.seq_length() as u64,
            micro_batch_size: run.batch.micro_batch_size as u64,
            precision: run.precision.name().to_owned(),
            optimizer: match run.optimizer {
                OptimizerConfig::AdamW { .. } => "AdamW",
                OptimizerConfig::Sgd { .. } => "SGD",
            }
            .to_owned(),
            activation_checkpointing: recomputed(run),
            document_attention: reads_documents(run),
            device: run.device,
            threads: match run.device {
                DeviceName::Cpu => run.threads as u64,
                DeviceName::Cuda => 1,
            },
        }
    }
}

/// What backwards compute once more: of blocks, and of the head.
fn recomputed(run: &Run) -> String {
    let blocks = match run.checkpointing {
        Checkpointing::Off | Checkpointing::Auto => "off".to_owned(),
        Checkpointing::Unit => "unit".to_owned(),
        Checkpointing::Layers(layers) => format!("{layers} layers"),
    };
    let head_logits = run.model.gpt().map(|gpt| gpt.vocabulary.head_logits);
    match (blocks.as_str(), head_logits) {
        ("off", Some(HeadLogits::Recompute)) => "logits".to_owned(),
        (_, Some(HeadLogits::Recompute)) => format!("{blocks}, logits"),
        _ => blocks,
    }
}
