//! The model families: the one list of them, and what can be asked of a model before it is built.
//!
//! A family is a folder with its sizes, its layers, a function that builds them and one that says what follows from the
//! sizes ([`Facts`]). In this crate, only this file names every family.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{ModelError, require};
use crate::facts::Facts;
use crate::llama::{LlamaConfig, LlamaSizes};
use crate::loss::Loss;
use crate::model::Model;
use crate::shared::{GptConfig, GptSizes, VocabularyOptions};
use crate::timed::{TimedConfig, TimedSizes};
use crate::{gpt2, llama, mlp, timed};

/// A model's family and sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelConfig {
    /// GPT-2: learned positions, pre-LN, tanh GELU, biases.
    Gpt2(GptConfig),
    /// Llama and what is built like it: RMS norms, rotary positions, SwiGLU, grouped queries.
    Llama(LlamaConfig),
    /// Token embedding, one linear layer and GELU per layer and token, head: the smallest model, for tests and studies.
    Mlp(GptConfig),
    /// Layers that hold memory and take a given time, and learn nothing: for studies of grids larger than this host.
    Timed(TimedConfig),
}

impl ModelConfig {
    /// Builds the layers.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where a size breaks a rule.
    pub fn build(&self) -> Result<Model, ModelError> {
        match self {
            Self::Gpt2(sizes) => gpt2::build(sizes),
            Self::Llama(sizes) => llama::build(sizes),
            Self::Mlp(sizes) => mlp::build(sizes),
            Self::Timed(sizes) => timed::build(sizes),
        }
    }

    /// The same with a loss that the caller brings, which is given whole rows of logits.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where a size breaks a rule, and for the timed family, which has no logits.
    pub fn build_with_loss(&self, loss: Arc<dyn Loss>) -> Result<Model, ModelError> {
        match self {
            Self::Gpt2(sizes) => gpt2::build_with_loss(sizes, loss),
            Self::Llama(sizes) => llama::build_with_loss(sizes, loss),
            Self::Mlp(sizes) => mlp::build_with_loss(sizes, loss),
            Self::Timed(_) => {
                require(false, "family", "timed", "its layers compute no logits, and so no loss of them")?;
                self.build()
            }
        }
    }

    /// Attention heads, which decide what weights compute and show in no shape; `None` for a family without attention.
    pub fn num_attention_heads(&self) -> Option<usize> {
        match self {
            Self::Gpt2(sizes) => Some(sizes.num_attention_heads),
            Self::Llama(sizes) => Some(sizes.gpt.num_attention_heads),
            Self::Mlp(_) | Self::Timed(_) => None,
        }
    }

    /// What is known of the model before it is built.
    pub fn facts(&self) -> Facts {
        match self {
            Self::Gpt2(sizes) => gpt2::facts(sizes),
            Self::Llama(sizes) => llama::facts(sizes),
            Self::Mlp(sizes) => mlp::facts(sizes),
            Self::Timed(sizes) => timed::facts(sizes),
        }
    }

    /// The sizes of a model that reads tokens; `None` for the timed family, which has other ones.
    pub fn gpt(&self) -> Option<&GptConfig> {
        match self {
            Self::Gpt2(sizes) | Self::Mlp(sizes) => Some(sizes),
            Self::Llama(sizes) => Some(&sizes.gpt),
            Self::Timed(_) => None,
        }
    }

    /// As [`ModelConfig::gpt`], to change them.
    pub fn gpt_mut(&mut self) -> Option<&mut GptConfig> {
        match self {
            Self::Gpt2(sizes) | Self::Mlp(sizes) => Some(sizes),
            Self::Llama(sizes) => Some(&mut sizes.gpt),
            Self::Timed(_) => None,
        }
    }

    /// The same model with its vocabulary's tables cut so, and its logits kept or not; a timed model has none.
    pub fn with_vocabulary(mut self, vocabulary: VocabularyOptions) -> Self {
        match &mut self {
            Self::Gpt2(sizes) | Self::Mlp(sizes) => sizes.vocabulary = vocabulary,
            Self::Llama(sizes) => sizes.gpt.vocabulary = vocabulary,
            Self::Timed(_) => {}
        }
        self
    }

    /// L: transformer blocks, or what stands in for them.
    pub fn num_layers(&self) -> usize {
        self.facts().num_layers
    }

    /// T: tokens of a sequence.
    pub fn seq_length(&self) -> usize {
        self.facts().seq_length
    }

    /// Parameters of the whole model, a tied weight counted once; `u128::MAX` where they are more.
    pub fn num_parameters(&self) -> u128 {
        self.facts().num_parameters
    }

    /// Whether training changes the parameters.
    pub fn learns(&self) -> bool {
        self.facts().learns
    }
}

/// A family with the sizes that decide how long a layer takes, as costs files have it; `Ns` is how these write a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSizes<Ns> {
    /// `gpt2`
    Gpt2(GptSizes),
    /// `llama`
    Llama(LlamaSizes),
    /// `mlp`
    Mlp(GptSizes),
    /// `timed`
    Timed(TimedSizes<Ns>),
}

impl<Ns: From<Duration>> From<&ModelConfig> for ModelSizes<Ns> {
    fn from(config: &ModelConfig) -> Self {
        match config {
            ModelConfig::Gpt2(sizes) => Self::Gpt2(sizes.into()),
            ModelConfig::Llama(sizes) => Self::Llama(sizes.into()),
            ModelConfig::Mlp(sizes) => Self::Mlp(sizes.into()),
            ModelConfig::Timed(sizes) => Self::Timed(sizes.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Activations, PassTimes};
    use crate::layer::MicroBatchShape;
    use crate::layout::ALIGNMENT;
    use crate::model::{LayerRole, Tying};
    use crate::testing::{config, llama_config};

    /// Models of every family, of all small and some larger sizes.
    fn models() -> Vec<ModelConfig> {
        let mut models = Vec::new();
        for num_layers in [1, 2, 5] {
            for (hidden_size, num_attention_heads) in [(1, 1), (2, 1), (6, 3), (24, 24), (40, 5)] {
                for (seq_length, vocab_size) in [(1, 1), (1, 300), (7, 2), (90, 11)] {
                    for tie_embeddings in [false, true] {
                        let sizes = GptConfig {
                            num_layers,
                            hidden_size,
                            num_attention_heads,
                            seq_length,
                            vocab_size,
                            tie_embeddings,
                            ..config()
                        };
                        let gpt = sizes.clone();
                        models.extend([ModelConfig::Gpt2(gpt.clone()), ModelConfig::Mlp(sizes)]);
                        models.push(ModelConfig::Llama(LlamaConfig { gpt, ..llama_config() }));
                    }
                }
            }
            for (parameters_per_layer, activation_elements) in [(1, 1), (7, 100), (1 << 40, 3)] {
                let (seq_length, times) = (4, PassTimes::default());
                models.push(ModelConfig::Timed(TimedConfig {
                    num_layers,
                    seq_length,
                    parameters_per_layer,
                    activation_elements,
                    times,
                }));
            }
        }
        models
    }

    #[test]
    fn parameters_counted_from_sizes_are_those_of_the_built_model() {
        for config in models() {
            let layers = config.build().unwrap().layers;
            let owners = layers.iter().filter(|layer| layer.tying != Tying::Head);
            let specs = owners.flat_map(|layer| layer.layer.parameters());
            let expected: u128 = specs.map(|spec| spec.num_elements() as u128).sum();
            assert_eq!(config.num_parameters(), expected, "{config:?}");
        }
    }

    /// OpenAI's small and medium models.
    #[test]
    fn gpt_2_has_as_many_parameters_as_is_known() {
        for (num_layers, hidden_size, expected) in [(12, 768, 124_439_808), (24, 1024, 354_823_168)] {
            let (seq_length, vocab_size, tie_embeddings) = (1024, 50257, true);
            let num_attention_heads = hidden_size / 64;
            let sizes = GptConfig {
                num_layers,
                hidden_size,
                num_attention_heads,
                seq_length,
                vocab_size,
                tie_embeddings,
                ..config()
            };
            assert_eq!(ModelConfig::Gpt2(sizes).num_parameters(), expected);
        }
    }

    #[test]
    fn a_block_with_halves_is_two_layers() {
        for config in models() {
            let block = LayerRole::Block { index: config.num_layers() - 1 };
            let layers = config.build().unwrap().layers;
            let of_block = layers.iter().filter(|layer| layer.role == block).count();
            assert_eq!(of_block, if config.facts().has_halves { 2 } else { 1 }, "{config:?}");
        }
    }

    #[test]
    fn activations_keep_the_bounds_that_sizes_give() {
        for config in models() {
            let model = config.build().unwrap();
            let facts = config.facts();
            assert_eq!((model.num_blocks, model.seq_length), (facts.num_layers, facts.seq_length));
            for num_sequences in [1, 3] {
                let shape = MicroBatchShape { num_sequences, seq_length: facts.seq_length };
                let blocks = model.layers.iter().filter(|layer| layer.role == LayerRole::Block { index: 0 });
                let saved = blocks.map(|layer| layer.layer.sizes(shape)).map(|size| size.input + size.saved);
                let bound = facts.activations.saved_by_block(num_sequences, facts.seq_length);
                // Pieces start at cache lines, which the bound leaves out: it is for sizes that fill memories.
                let padding = 8 * ALIGNMENT;
                assert!(saved.sum::<usize>() as f64 <= bound + padding as f64, "{config:?}");
                let outputs = model.layers.iter().map(|layer| layer.layer.sizes(shape).output);
                let widest = match facts.activations {
                    Activations::PerToken { widest, .. } => shape.num_tokens() * widest,
                    Activations::Given { elements } => elements,
                };
                assert!(outputs.max().unwrap() <= widest, "{config:?}");
            }
        }
    }

    /// What a user can write is at most a `u64`; no count of it wraps around.
    #[test]
    fn counts_of_the_largest_sizes_end_at_the_largest_number() {
        let largest = usize::MAX;
        let sizes = GptConfig {
            num_layers: largest,
            hidden_size: largest,
            num_attention_heads: largest,
            seq_length: largest,
            vocab_size: largest,
            tie_embeddings: true,
            ..config()
        };
        for config in [ModelConfig::Gpt2(sizes.clone()), ModelConfig::Mlp(sizes)] {
            assert_eq!(config.num_parameters(), u128::MAX);
            assert!(config.build().is_err());
        }
    }

    /// As the resolved run is written: the family around its sizes, and nothing that no run file can ask for.
    #[test]
    fn a_model_is_written_under_its_familys_name() {
        for config in models() {
            let json = serde_json::to_value(&config).unwrap();
            let sizes = &json[config.facts().family];
            assert_eq!(sizes["num_layers"], config.num_layers());
            assert!(sizes.get("ablation").is_none() && sizes.get("times").is_none(), "{json}");
        }
    }
}
