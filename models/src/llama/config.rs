//! The sizes of a Llama, and the rules that they must keep.

use serde::{Deserialize, Serialize};

use super::RopeScaling;
use crate::error::{ModelError, require};
use crate::kernels::norm::{Norm, NormKind};
use crate::kernels::rope::Rope;
use crate::shared::GptConfig;

/// The sizes of a Llama. Names are Megatron's where it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlamaConfig {
    /// What every model has that reads tokens; `num_attention_heads` are those of queries and need not divide `hidden_size`.
    #[serde(flatten)]
    pub gpt: GptConfig,
    /// F: width of gate and of up.
    pub ffn_hidden_size: usize,
    /// G: heads of keys and of values; divides `num_attention_heads`.
    pub num_query_groups: usize,
    /// D: elements of a head; even.
    pub kv_channels: usize,
    /// Added to the mean square in every norm.
    pub norm_epsilon: f64,
    /// Base of the rotary angles: pair `i` of a head turns by `rotary_base^(-2 i / D)` radians per position.
    pub rotary_base: f64,
    /// What becomes of the angles in a model that was made for longer sequences after it was trained.
    pub rope_scaling: RopeScaling,
    /// Whether the linear map of queries, keys and values has a bias.
    pub add_qkv_bias: bool,
    /// Whether attention's projection has one.
    pub add_proj_bias: bool,
    /// Whether the linear maps of the feed-forward half have one.
    pub add_mlp_bias: bool,
    /// Whether heads of queries and keys are normalised before they are turned.
    pub qk_layernorm: bool,
}

impl LlamaConfig {
    /// H D: elements that attention gives for a token.
    pub fn attended_width(&self) -> usize {
        self.gpt.num_attention_heads.saturating_mul(self.kv_channels)
    }

    /// (H + 2 G) D: elements of a token's queries, keys and values.
    pub fn qkv_width(&self) -> usize {
        let num_heads = self.gpt.num_attention_heads.saturating_add(self.num_query_groups.saturating_mul(2));
        num_heads.saturating_mul(self.kv_channels)
    }

    /// The norms of the residual stream.
    pub(super) fn norm(&self) -> Norm {
        Norm { kind: NormKind::Rms, epsilon: self.norm_epsilon as f32 }
    }

    /// The angles of sequences of `seq_length` tokens.
    pub(crate) fn rope(&self, seq_length: usize) -> Rope {
        self.rope_scaling.rope(self.rotary_base, self.kv_channels, seq_length)
    }

    /// Checks the sizes; the model would have `num_parameters`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] with the first value that breaks a rule.
    pub(super) fn check(&self, num_parameters: u128) -> Result<(), ModelError> {
        let Self { ref gpt, ffn_hidden_size, num_query_groups, kv_channels, .. } = *self;
        for (name, value) in [
            ("num_attention_heads", gpt.num_attention_heads),
            ("ffn_hidden_size", ffn_hidden_size),
            ("num_query_groups", num_query_groups),
            ("kv_channels", kv_channels),
        ] {
            require(value > 0, name, value, "must be at least 1")?;
        }
        let rule = "must be even: rotary embeddings turn pairs of elements";
        require(kv_channels.is_multiple_of(2), "kv_channels", kv_channels, rule)?;
        let num_heads = gpt.num_attention_heads;
        let rule = format!(
            "must divide num_attention_heads = {num_heads}: every head of keys is shared by as many of queries"
        );
        require(num_heads.is_multiple_of(num_query_groups), "num_query_groups", num_query_groups, rule)?;
        let rule = "must be a positive, finite number, such as 1e-5";
        // As it is computed with.
        let is_positive = |value: f32| value.is_finite() && value > 0.0;
        require(is_positive(self.norm_epsilon as f32), "norm_epsilon", self.norm_epsilon, rule)?;
        let rule = "must be a finite number above 1; Llama 2 has 10000, Llama 3 has 500000";
        let is_base = self.rotary_base.is_finite() && self.rotary_base > 1.0;
        require(is_base, "rotary_base", self.rotary_base, rule)?;
        self.rope_scaling.check()?;
        let rule = "the llama family has no dropout; use 0";
        require(gpt.dropout == 0.0, "dropout", gpt.dropout, rule)?;
        gpt.check(num_parameters)
    }
}

/// The sizes that decide how long a layer takes, as costs files have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlamaSizes {
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Heads of queries.
    pub num_attention_heads: u64,
    /// Heads of keys and of values.
    pub num_query_groups: u64,
    /// Elements of a head.
    pub kv_channels: u64,
    /// Width of gate and of up.
    pub ffn_hidden_size: u64,
    /// Token numbers are below this.
    pub vocab_size: u64,
    /// Whether heads of queries and keys are normalised.
    pub qk_layernorm: bool,
}

impl From<&LlamaConfig> for LlamaSizes {
    fn from(config: &LlamaConfig) -> Self {
        Self {
            hidden_size: config.gpt.hidden_size as u64,
            num_attention_heads: config.gpt.num_attention_heads as u64,
            num_query_groups: config.num_query_groups as u64,
            kv_channels: config.kv_channels as u64,
            ffn_hidden_size: config.ffn_hidden_size as u64,
            vocab_size: config.gpt.vocab_size as u64,
            qk_layernorm: config.qk_layernorm,
        }
    }
}
