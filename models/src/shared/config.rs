//! The sizes of a model that reads tokens, and the rules that they must keep.

use serde::{Deserialize, Serialize};

use crate::error::{ModelError, require};
use crate::layer::IGNORED_TARGET;

use super::VocabularyOptions;

/// The sizes of a model that reads tokens. Names are Megatron's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GptConfig {
    /// Transformer blocks.
    pub num_layers: usize,
    /// C: width of the residual stream.
    pub hidden_size: usize,
    /// H: heads of queries; divides `hidden_size` in GPT-2. The MLP family, which has no attention, does not read it.
    pub num_attention_heads: usize,
    /// Longest sequence, T.
    pub seq_length: usize,
    /// V: token numbers are below this.
    pub vocab_size: usize,
    /// Whether the head uses the token embedding's weight.
    pub tie_embeddings: bool,
    /// Standard deviation of the initial weights.
    pub init_std: f64,
    /// Share of elements that dropout drops, at least 0 and below 1: behind the embeddings, of the attention weights,
    /// and of what each branch adds to the residual stream.
    pub dropout: f64,
    /// A part taken out, to show what it is worth. No run file can ask for it, and no output shows it.
    #[serde(skip)]
    pub ablation: Ablation,
    /// How the vocabulary's tables are cut, and what becomes of logits. It changes no result, and belongs to the run, not to the
    /// model.
    #[serde(skip)]
    pub vocabulary: VocabularyOptions,
}

/// A part of the model that is taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ablation {
    /// Nothing.
    #[default]
    None,
    /// Attention's output counts as zero, so that no token sees another.
    AttentionOutput,
}

impl GptConfig {
    /// Checks what every family of these sizes needs; the model would have `num_parameters`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] with the first value that breaks a rule.
    pub(crate) fn check(&self, num_parameters: u128) -> Result<(), ModelError> {
        let Self { num_layers, hidden_size, seq_length, vocab_size, init_std, dropout, .. } = *self;
        for (name, value) in [
            ("num_layers", num_layers),
            ("hidden_size", hidden_size),
            ("seq_length", seq_length),
            ("vocab_size", vocab_size),
        ] {
            require(value > 0, name, value, "must be at least 1")?;
        }
        let rule = format!("must be at most {IGNORED_TARGET}, the number that marks a target without loss");
        require(vocab_size <= IGNORED_TARGET as usize, "vocab_size", vocab_size, rule)?;
        let rule = "must be a finite number of at least 0; GPT-2 has 0.02";
        require(init_std.is_finite() && init_std >= 0.0, "init_std", init_std, rule)?;
        let rule = "must be at least 0 and below 1; 0 drops nothing, GPT-2 has 0.1";
        require((0.0..1.0).contains(&dropout), "dropout", dropout, rule)?;
        self.vocabulary.check(vocab_size)?;
        // Ten f32 for each parameter cover gradients, optimizer state and activations.
        let fits = num_parameters.saturating_mul(4 * 10) < isize::MAX as u128;
        let rule = format!(
            "is more than a machine can address beside num_layers = {num_layers}, seq_length = {seq_length} and \
             vocab_size = {vocab_size}; make one of them smaller"
        );
        require(fits, "hidden_size", hidden_size, rule)
    }

    /// Standard deviation of the weights that write into the residual stream, two per block: GPT-2 divides by the
    /// root of their number.
    pub(crate) fn residual_std(&self) -> f32 {
        (self.init_std / (2.0 * self.num_layers as f64).sqrt()) as f32
    }
}

/// The sizes that decide how long a layer takes, as costs files have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptSizes {
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Attention heads.
    pub num_attention_heads: u64,
    /// Token numbers are below this.
    pub vocab_size: u64,
    /// Whether elements are dropped; how many of them does not decide the time.
    pub dropout: bool,
}

impl From<&GptConfig> for GptSizes {
    fn from(config: &GptConfig) -> Self {
        Self {
            hidden_size: config.hidden_size as u64,
            num_attention_heads: config.num_attention_heads as u64,
            vocab_size: config.vocab_size as u64,
            dropout: config.dropout > 0.0,
        }
    }
}
