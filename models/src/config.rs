//! The shape of a GPT-style model, and the rules that it must keep.

use crate::error::ModelError;
use crate::layer::IGNORED_TARGET;

/// The shape of a model. Names are Megatron's.
#[derive(Clone, Debug, PartialEq)]
pub struct GptConfig {
    /// Transformer blocks.
    pub num_layers: usize,
    /// C: width of the residual stream.
    pub hidden_size: usize,
    /// H: must divide `hidden_size`. The MLP family, which has no attention, does not read it.
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
    /// A part taken out, to show what it is worth.
    pub ablation: Ablation,
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
    /// Checks what every family needs.
    ///
    /// # Errors
    /// [`ModelError::Shape`] with the first value that breaks a rule.
    pub fn check(&self) -> Result<(), ModelError> {
        let Self { num_layers, hidden_size, seq_length, vocab_size, init_std, dropout, .. } = *self;
        for (name, value) in [
            ("num_layers", num_layers),
            ("hidden_size", hidden_size),
            ("seq_length", seq_length),
            ("vocab_size", vocab_size),
        ] {
            require(value > 0, || format!("{name} = {value}"), || "must be at least 1".into())?;
        }
        require(
            vocab_size <= IGNORED_TARGET as usize,
            || format!("vocab_size = {vocab_size}"),
            || format!("must be at most {IGNORED_TARGET}, the number that marks a target without loss"),
        )?;
        require(
            init_std.is_finite() && init_std >= 0.0,
            || format!("init_std = {init_std}"),
            || "must be a finite number of at least 0; GPT-2 has 0.02".into(),
        )?;
        require(
            (0.0..1.0).contains(&dropout),
            || format!("dropout = {dropout}"),
            || "must be at least 0 and below 1; 0 drops nothing, GPT-2 has 0.1".into(),
        )?;
        // Twelve C x C weights per block, two tables of V rows and one of T, in f32; ten times that covers gradients,
        // optimizer state and activations.
        let rows_per_block = 12_u128 * hidden_size as u128;
        let rows = rows_per_block
            .saturating_mul(num_layers as u128)
            .saturating_add(2 * vocab_size as u128 + seq_length as u128);
        let num_bytes = rows.saturating_mul(4 * 10 * hidden_size as u128);
        require(
            num_bytes < isize::MAX as u128,
            || format!("hidden_size = {hidden_size}"),
            || {
                format!(
                    "is more than a machine can address beside num_layers = {num_layers}, \
                     seq_length = {seq_length} and vocab_size = {vocab_size}; make one of them smaller"
                )
            },
        )
    }

    /// Checks what attention needs.
    ///
    /// # Errors
    /// As [`GptConfig::check`].
    pub fn check_heads(&self) -> Result<(), ModelError> {
        let Self { hidden_size, num_attention_heads: num_heads, .. } = *self;
        let value = || format!("num_attention_heads = {num_heads}");
        require(num_heads > 0, value, || "must be at least 1".into())?;
        require(hidden_size.is_multiple_of(num_heads), value, || {
            let repair = nearest_divisor(hidden_size, num_heads);
            format!("must divide hidden_size = {hidden_size}; {repair} does")
        })
    }

    /// Checks that nothing is to be dropped, for a `family` that has no place for it.
    ///
    /// # Errors
    /// As [`GptConfig::check`].
    pub fn check_no_dropout(&self, family: &str) -> Result<(), ModelError> {
        require(
            self.dropout == 0.0,
            || format!("dropout = {}", self.dropout),
            || format!("{family} has no dropout; use 0, or the gpt2 family"),
        )
    }

    /// Standard deviation of the weights that write into the residual stream, two per block: GPT-2 divides by the
    /// root of their number.
    pub(crate) fn residual_std(&self) -> f32 {
        (self.init_std / (2.0 * self.num_layers as f64).sqrt()) as f32
    }
}

/// The divisor of `number` nearest to `wanted`, the smaller of two.
fn nearest_divisor(number: usize, wanted: usize) -> usize {
    let distance = |divisor: &usize| divisor.abs_diff(wanted);
    (1..=number).filter(|divisor| number.is_multiple_of(*divisor)).min_by_key(distance).unwrap_or(1)
}

fn require(holds: bool, value: impl Fn() -> String, rule: impl Fn() -> String) -> Result<(), ModelError> {
    if holds { Ok(()) } else { Err(ModelError::Shape { value: value(), rule: rule() }) }
}
