//! The workload of a run: what a costs file must have been measured on to be of it.

use std::time::Duration;

use super::file::{GptSizes, ModelSizes, TimedSizes, Workload};
use crate::config::{Checkpointing, GptConfig, ModelConfig, OptimizerConfig, Precision, Run};

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
                forward_ns: ns(timed.times.forward),
                backward_input_ns: ns(timed.times.backward_input),
                backward_weight_ns: ns(timed.times.backward_weight),
                recompute_ns: ns(timed.times.recompute),
            }),
        }
    }
}
