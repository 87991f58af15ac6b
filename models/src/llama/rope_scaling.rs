//! Scaled rotary embeddings: how a model that was trained on short sequences is made to read longer ones.
//!
//! Formulas and names are those of Hugging Face's `modeling_rope_utils.py`, which published models are run with.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use crate::error::{ModelError, require};
use crate::kernels::rope::Rope;

/// What becomes of the rotary frequencies `base^(-2 i / D)`, or of the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rope_type", rename_all = "lowercase")]
pub enum RopeScaling {
    /// Nothing.
    #[default]
    Default,
    /// All are divided by the factor (Chen et al., arXiv:2306.15595).
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// The base grows with sequences that are longer than the original ones.
    Dynamic {
        /// At least 1.
        factor: f64,
        /// The longest sequence of the training, whose frequencies stay.
        original_max_position_embeddings: usize,
    },
    /// Llama 3.1: long waves are divided by the factor, short ones stay, and between them it is one after the other.
    Llama3 {
        /// At least 1.
        factor: f64,
        /// Waves that turn fewer times than this within the original length are long.
        low_freq_factor: f64,
        /// Those that turn more often than this are short.
        high_freq_factor: f64,
        /// The longest sequence of the training.
        original_max_position_embeddings: usize,
    },
    /// YaRN (Peng et al., arXiv:2309.00071): as Llama 3.1 with a ramp along the pairs, and attention's scores grow.
    Yarn(Yarn),
}

/// What YaRN is given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Yarn {
    /// At least 1.
    pub factor: f64,
    /// The longest sequence of the training.
    pub original_max_position_embeddings: usize,
    /// What sines and cosines are multiplied by.
    pub attention_factor: f64,
    /// Waves that turn more often than this within the original length stay.
    pub beta_fast: f64,
    /// Those that turn fewer times are divided by the factor.
    pub beta_slow: f64,
    /// Whether the ramp begins and ends at whole pairs.
    pub truncate: bool,
}

impl RopeScaling {
    /// The angles of heads of `head_size`, an even number, for sequences of `seq_length` tokens.
    pub fn rope(self, base: f64, head_size: usize, seq_length: usize) -> Rope {
        let size = head_size as f64;
        let frequency = |base: f64, pair: usize| base.powf(-2.0 * pair as f64 / size);
        let scaled = |pair: usize| match self {
            Self::Default => frequency(base, pair),
            Self::Linear { factor } => frequency(base, pair) / factor,
            Self::Dynamic { factor, original_max_position_embeddings: original } => {
                let longer = seq_length.max(original) as f64 / original as f64;
                // Of a head of two elements the only pair turns by 1, whatever the base.
                let exponent = if head_size > 2 { size / (size - 2.0) } else { 0.0 };
                frequency(base * (factor * longer - (factor - 1.0)).powf(exponent), pair)
            }
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                let frequency = frequency(base, pair);
                let num_turns = original_max_position_embeddings as f64 * frequency / TAU;
                let share = (num_turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                mixed(frequency / factor, frequency, share.clamp(0.0, 1.0))
            }
            Self::Yarn(yarn) => {
                let frequency = frequency(base, pair);
                mixed(frequency, frequency / yarn.factor, yarn.ramp(base, head_size, pair))
            }
        };
        let scale = match self {
            Self::Yarn(yarn) => yarn.attention_factor as f32,
            _ => 1.0,
        };
        Rope { frequencies: (0..head_size / 2).map(|pair| scaled(pair) as f32).collect(), scale }
    }

    /// # Errors
    /// [`ModelError::Shape`] with the first value that breaks a rule.
    pub(super) fn check(self) -> Result<(), ModelError> {
        let (factor, original) = match self {
            Self::Default => return Ok(()),
            Self::Linear { factor } => (factor, 1),
            Self::Dynamic { factor, original_max_position_embeddings }
            | Self::Llama3 { factor, original_max_position_embeddings, .. }
            | Self::Yarn(Yarn { factor, original_max_position_embeddings, .. }) => {
                (factor, original_max_position_embeddings)
            }
        };
        let rule = "must be a finite number of at least 1";
        require(factor.is_finite() && factor >= 1.0, "rope_scaling.factor", factor, rule)?;
        let name = "rope_scaling.original_max_position_embeddings";
        require(original > 0, name, original, "must be at least 1")?;
        match self {
            Self::Llama3 { low_freq_factor: low, high_freq_factor: high, .. } => {
                require_order(["rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor"], low, high)
            }
            Self::Yarn(Yarn { attention_factor, beta_fast, beta_slow, .. }) => {
                let rule = "must be a positive, finite number";
                let computed = attention_factor as f32;
                let is_positive = computed.is_finite() && computed > 0.0;
                require(is_positive, "rope_scaling.attention_factor", attention_factor, rule)?;
                require_order(["rope_scaling.beta_slow", "rope_scaling.beta_fast"], beta_slow, beta_fast)
            }
            Self::Default | Self::Linear { .. } | Self::Dynamic { .. } => Ok(()),
        }
    }
}

/// Refuses numbers of turns that are not in this order.
fn require_order(names: [&str; 2], low: f64, high: f64) -> Result<(), ModelError> {
    let rule = format!("must be positive and below {} = {high}", names[1]);
    require(low > 0.0 && low < high && high.is_finite(), names[0], low, rule)
}

/// The first at 0, the second at 1.
fn mixed(first: f64, second: f64, share: f64) -> f64 {
    first * (1.0 - share) + second * share
}

impl Yarn {
    /// What scores grow by where a model says nothing else: `0.1 ln(factor) + 1` (section 3.4 of the paper, on each of query and key).
    pub fn default_attention_factor(factor: f64) -> f64 {
        Self::magnitude(factor, 1.0)
    }

    /// The quotient of two such factors, as DeepSeek's models write them.
    pub fn attention_factor_of(factor: f64, mscale: f64, mscale_all_dim: f64) -> f64 {
        Self::magnitude(factor, mscale) / Self::magnitude(factor, mscale_all_dim)
    }

    fn magnitude(factor: f64, mscale: f64) -> f64 {
        if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 }
    }

    /// 0 for pairs that stay, 1 for those that are divided by the factor.
    fn ramp(self, base: f64, head_size: usize, pair: usize) -> f64 {
        let length = self.original_max_position_embeddings as f64;
        // The pair that turns so often within the original length.
        let pair_of =
            |num_turns: f64| head_size as f64 * (length / (num_turns * TAU)).ln() / (2.0 * base.ln());
        let (mut low, mut high) = (pair_of(self.beta_fast), pair_of(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(head_size as f64 - 1.0));
        // Hugging Face makes a ramp of no width 0.001 wide.
        let width = if low == high { 0.001 } else { high - low };
        ((pair as f64 - low) / width).clamp(0.0, 1.0)
    }
}
