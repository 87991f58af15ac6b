//! Llama once more, in candle tensors of f64: heads of keys are repeated, pairs are turned as complex numbers.

use candle_core::{D, Device, Result, Tensor};

use super::oracle::{Oracle, log_softmax};
use super::rope_oracle;
use super::run::Batch;
use crate::llama::LlamaConfig;
use crate::shared::Ablation;

impl Oracle {
    /// Llama's summed loss.
    pub(crate) fn llama_loss(&self, config: &LlamaConfig, batch: &Batch) -> Result<Tensor> {
        let mut x = self.embed(batch)?;
        for block in 0..config.gpt.num_layers {
            let prefix = format!("h.{block}");
            let h = self.rms_norm(config, &x, &format!("{prefix}.ln_1"))?;
            let qkv = self.linear_where_biased(&h, &format!("{prefix}.attn.qkv"))?;
            let mut attended = self.attend_grouped(config, batch, &qkv, &prefix)?;
            if config.gpt.ablation == Ablation::AttentionOutput {
                attended = (attended * 0.0)?;
            }
            x = (x + self.linear_where_biased(&attended, &format!("{prefix}.attn.proj"))?)?;
            let h = self.rms_norm(config, &x, &format!("{prefix}.ln_2"))?;
            let gate_up = self.linear_where_biased(&h, &format!("{prefix}.mlp.gate_up"))?;
            let gate = gate_up.narrow(2, 0, config.ffn_hidden_size)?;
            let up = gate_up.narrow(2, config.ffn_hidden_size, config.ffn_hidden_size)?;
            let active = ((&gate / (gate.neg()?.exp()? + 1.0)?)? * up)?;
            x = (x + self.linear_where_biased(&active, &format!("{prefix}.mlp.down"))?)?;
        }
        self.loss(&self.rms_norm(config, &x, "ln_f")?, batch)
    }

    fn linear_where_biased(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let y = x.broadcast_matmul(&self.get(&format!("{name}.weight")).t()?)?;
        match self.find(&format!("{name}.bias")) {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }

    fn rms_norm(&self, config: &LlamaConfig, x: &Tensor, name: &str) -> Result<Tensor> {
        let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean_square + f64::from(config.norm_epsilon as f32))?.sqrt()?)?
            .broadcast_mul(self.get(&format!("{name}.weight")))
    }

    /// `[B, T, (H + 2 G) D]` to `[B, T, H D]`.
    fn attend_grouped(
        &self,
        config: &LlamaConfig,
        batch: &Batch,
        qkv: &Tensor,
        prefix: &str,
    ) -> Result<Tensor> {
        let (num_sequences, seq_length, _) = qkv.dims3()?;
        let (num_heads, num_groups, size) =
            (config.gpt.num_attention_heads, config.num_query_groups, config.kv_channels);
        let heads = qkv.reshape((num_sequences, seq_length, num_heads + 2 * num_groups, size))?;
        let part = |first: usize, count: usize| heads.narrow(2, first, count)?.transpose(1, 2)?.contiguous();
        let (mut q, mut k) = (part(0, num_heads)?, part(num_heads, num_groups)?);
        if config.qk_layernorm {
            q = self.rms_norm(config, &q, &format!("{prefix}.attn.q_norm"))?;
            k = self.rms_norm(config, &k, &format!("{prefix}.attn.k_norm"))?;
        }
        let (q, k) = (turned(config, batch, &q)?, turned(config, batch, &k)?);
        let repeated = |x: &Tensor| {
            let of_heads: Result<Vec<_>> =
                (0..num_heads).map(|head| x.narrow(1, head * num_groups / num_heads, 1)).collect();
            Tensor::cat(&of_heads?, 1)
        };
        let (k, v) = (repeated(&k)?, repeated(&part(num_heads + num_groups, num_groups)?)?);
        let scores = (q.matmul(&k.t()?.contiguous()?)? / (size as f64).sqrt())?;
        let shape = (num_sequences, 1, seq_length, seq_length);
        let mask = Tensor::from_vec(batch.score_mask(), shape, &Device::Cpu)?;
        let probabilities = log_softmax(&scores.broadcast_add(&mask)?)?.exp()?;
        probabilities.matmul(&v)?.transpose(1, 2)?.reshape((num_sequences, seq_length, num_heads * size))
    }
}

/// `[B, heads, T, D]`, each half of a head the real or the imaginary parts of numbers that are turned.
fn turned(config: &LlamaConfig, batch: &Batch, x: &Tensor) -> Result<Tensor> {
    let (num_sequences, _, seq_length, size) = x.dims4()?;
    let (frequencies, scale) =
        rope_oracle::rope(config.rope_scaling, config.rotary_base, config.kv_channels, seq_length);
    let table = |of: fn(f64) -> f64| -> Result<Tensor> {
        let angles = (0..batch.shape.num_tokens()).flat_map(|n| {
            let position = n % seq_length - batch.document_start(n);
            // The product is rounded as PyTorch rounds it.
            frequencies.iter().map(move |&frequency| f64::from(position as f32 * frequency as f32))
        });
        let values = angles.map(|angle| scale * of(angle)).collect();
        Tensor::from_vec(values, (num_sequences, 1, seq_length, size / 2), &Device::Cpu)
    };
    let (cosines, sines) = (table(f64::cos)?, table(f64::sin)?);
    let (real, imaginary) = (x.narrow(3, 0, size / 2)?, x.narrow(3, size / 2, size / 2)?);
    let new_real = (real.broadcast_mul(&cosines)? - imaginary.broadcast_mul(&sines)?)?;
    let new_imaginary = (real.broadcast_mul(&sines)? + imaginary.broadcast_mul(&cosines)?)?;
    Tensor::cat(&[new_real, new_imaginary], 3)
}
