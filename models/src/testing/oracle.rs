//! The models once more, in candle tensors of f64, with candle's own autograd.
//!
//! Written from the formulas and sharing nothing with the kernels: probabilities are kept, masks are added, GELU uses
//! tanh, and every norm is spelled out.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Result, Tensor, Var};

use super::run::{Batch, Run};
use crate::kernels::philox;
use crate::layer::IGNORED_TARGET;
use crate::shared::{Ablation, GptConfig};

/// A model's parameters as candle variables.
pub(crate) struct Oracle {
    config: GptConfig,
    variables: BTreeMap<String, Var>,
}

impl Oracle {
    /// The same parameters as `run` has now.
    pub(crate) fn new(config: &GptConfig, run: &Run) -> Self {
        let variables = run
            .parameters()
            .into_iter()
            .map(|(name, (shape, values))| {
                let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
                (name, Var::from_tensor(&tensor.to_dtype(DType::F64).unwrap()).unwrap())
            })
            .collect();
        Self { config: config.clone(), variables }
    }

    /// GPT-2's summed loss.
    pub(crate) fn gpt2_loss(&self, batch: &Batch) -> Result<Tensor> {
        let (length, width) = (batch.shape.seq_length, self.config.hidden_size);
        let numbers = (0..batch.shape.num_tokens()).map(|n| (n % length - batch.document_start(n)) as u32);
        let numbers = Tensor::from_iter(numbers, &Device::Cpu)?;
        let positions = self.get("wpe.weight").index_select(&numbers, 0)?;
        let x = (self.embed(batch)? + positions.reshape((batch.shape.num_sequences, length, width))?)?;
        let mut x = (x * self.mask(batch, 0, 0, width)?)?;
        for block in 0..self.config.num_layers {
            let prefix = format!("h.{block}");
            // The places of a block: attention weights, attention's branch, the feed-forward branch.
            let place = 1 + 3 * block as u32;
            let h = self.norm(&x, &format!("{prefix}.ln_1"))?;
            let mut attended = self.attend(&self.linear(&h, &format!("{prefix}.attn.qkv"))?, batch, place)?;
            if self.config.ablation == Ablation::AttentionOutput {
                attended = (attended * 0.0)?;
            }
            let branch = self.linear(&attended, &format!("{prefix}.attn.proj"))?;
            x = (x + (branch * self.mask(batch, place + 1, 0, width)?)?)?;
            let h = self.norm(&x, &format!("{prefix}.ln_2"))?;
            let h = gelu(&self.linear(&h, &format!("{prefix}.mlp.up"))?)?;
            let branch = self.linear(&h, &format!("{prefix}.mlp.down"))?;
            x = (x + (branch * self.mask(batch, place + 2, 0, width)?)?)?;
        }
        self.loss(&self.norm(&x, "ln_f")?, batch)
    }

    /// The MLP family's summed loss.
    pub(crate) fn mlp_loss(&self, batch: &Batch) -> Result<Tensor> {
        let mut x = self.embed(batch)?;
        for block in 0..self.config.num_layers {
            x = gelu(&self.linear(&x, &format!("h.{block}.dense"))?)?;
        }
        self.loss(&x, batch)
    }

    /// Gradients of `loss_seed * loss`.
    pub(crate) fn gradients(&self, loss: &Tensor, loss_seed: f64) -> BTreeMap<String, Vec<f64>> {
        let store = (loss * loss_seed).unwrap().backward().unwrap();
        let gradient = |var: &Var| match store.get(var) {
            Some(gradient) => gradient.flatten_all().unwrap().to_vec1().unwrap(),
            None => vec![0.0; var.elem_count()],
        };
        self.variables.iter().map(|(name, var)| (name.clone(), gradient(var))).collect()
    }

    /// Moves one element of a parameter.
    pub(crate) fn nudge(&self, name: &str, element: usize, by: f64) {
        let var = &self.variables[name];
        let mut values: Vec<f64> = var.flatten_all().unwrap().to_vec1().unwrap();
        values[element] += by;
        var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu).unwrap()).unwrap();
    }

    pub(super) fn get(&self, name: &str) -> &Tensor {
        self.variables[name].as_tensor()
    }

    /// A parameter that a model may not have.
    pub(super) fn find(&self, name: &str) -> Option<&Tensor> {
        self.variables.get(name).map(Var::as_tensor)
    }

    /// `[B, T, C]`
    pub(super) fn embed(&self, batch: &Batch) -> Result<Tensor> {
        let shape = batch.shape;
        let tokens = Tensor::from_slice(&batch.inputs, shape.num_tokens(), &Device::Cpu)?;
        let mut x = self.get("wte.weight").index_select(&tokens, 0)?;
        if let Some(encoder) = &batch.encoder_inputs {
            for (index, &input) in encoder.shapes.iter().enumerate() {
                let values: Vec<f64> = encoder.values[index].iter().copied().map(f64::from).collect();
                let values = Tensor::from_vec(values, (input.num_rows, ()), &Device::Cpu)?;
                let module = format!("module.{}", input.module);
                let hidden = gelu(&self.linear(&values, &format!("{module}.up"))?)?;
                let rows = self.linear(&hidden, &format!("{module}.down"))?;
                let onto = Tensor::from_iter(encoder.tokens[index].iter().map(|&n| n as u32), &Device::Cpu)?;
                x = x.index_add(&onto, &rows, 0)?;
            }
        }
        x.reshape((shape.num_sequences, shape.seq_length, ()))
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let weight = self.get(&format!("{name}.weight")).t()?;
        x.broadcast_matmul(&weight)?.broadcast_add(self.get(&format!("{name}.bias")))
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        centred
            .broadcast_div(&(variance + 1e-5)?.sqrt()?)?
            .broadcast_mul(self.get(&format!("{name}.weight")))?
            .broadcast_add(self.get(&format!("{name}.bias")))
    }

    /// `[B, T, 3 C]` to `[B, T, C]`, with the weights masked at `place`.
    fn attend(&self, qkv: &Tensor, batch: &Batch, place: u32) -> Result<Tensor> {
        let (num_sequences, seq_length, width) = qkv.dims3()?;
        let (width, num_heads) = (width / 3, self.config.num_attention_heads);
        let part = |index: usize| {
            let part = qkv.narrow(2, index * width, width)?;
            let part = part.reshape((num_sequences, seq_length, num_heads, width / num_heads))?;
            part.transpose(1, 2)?.contiguous()
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scores = (q.matmul(&k.t()?.contiguous()?)? / ((width / num_heads) as f64).sqrt())?;
        let shape = (num_sequences, 1, seq_length, seq_length);
        let mask = Tensor::from_vec(batch.score_mask(), shape, &Device::Cpu)?;
        let probabilities = log_softmax(&scores.broadcast_add(&mask)?)?.exp()?;
        let masks = (0..num_heads).map(|head| self.mask(batch, place, head as u32, seq_length));
        let masks = Tensor::stack(&masks.collect::<Result<Vec<_>>>()?, 1)?;
        let probabilities = (probabilities * masks)?;
        probabilities.matmul(&v)?.transpose(1, 2)?.reshape((num_sequences, seq_length, width))
    }

    /// `[B, T, len]`: what dropout multiplies by, number by number from the documented counters; ones without dropout.
    fn mask(&self, batch: &Batch, place: u32, head: u32, len: usize) -> Result<Tensor> {
        let p = self.config.dropout;
        let shape = (batch.shape.num_sequences, batch.shape.seq_length, len);
        let Some(masks) = batch.masks else { return Tensor::ones(shape, DType::F64, &Device::Cpu) };
        let low_and_high = |number: u64| [number as u32, (number >> 32) as u32];
        let mut factors = Vec::new();
        for row in 0..batch.shape.num_tokens() {
            let sequence = masks.first_sequence + (row / batch.shape.seq_length) as u64;
            let ([a, b], [c, d]) = (low_and_high(masks.step), low_and_high(sequence));
            let [key_a, key_b, ..] = philox::block(low_and_high(masks.seed), [a, b, c, d]);
            for e in 0..len {
                let (column, position) = (16 * (e / 64) + e % 16, row % batch.shape.seq_length);
                let counter = [column as u32, position as u32, head, place];
                let number = philox::block([key_a, key_b], counter)[e / 16 % 4];
                let is_dropped = f64::from(number) < (p * 2_f64.powi(32)).round();
                factors.push(if is_dropped { 0.0 } else { 1.0 / (1.0 - p) });
            }
        }
        Tensor::from_vec(factors, shape, &Device::Cpu)
    }

    pub(super) fn loss(&self, x: &Tensor, batch: &Batch) -> Result<Tensor> {
        let head = if self.config.tie_embeddings { "wte.weight" } else { "lm_head.weight" };
        let num_tokens = batch.shape.num_tokens();
        let log_p = log_softmax(&x.broadcast_matmul(&self.get(head).t()?)?)?.reshape((num_tokens, ()))?;
        let valid = |target: &u32| f64::from(u8::from(*target != IGNORED_TARGET));
        let weights: Vec<f64> = batch.targets.iter().map(valid).collect();
        let targets: Vec<u32> =
            batch.targets.iter().map(|&target| if target == IGNORED_TARGET { 0 } else { target }).collect();
        let targets = Tensor::from_vec(targets, (num_tokens, 1), &Device::Cpu)?;
        let weights = Tensor::from_vec(weights, (num_tokens, 1), &Device::Cpu)?;
        (log_p.gather(&targets, 1)? * weights)?.sum_all()?.neg()
    }
}

pub(super) fn log_softmax(x: &Tensor) -> Result<Tensor> {
    let shifted = x.broadcast_sub(&x.max_keepdim(D::Minus1)?.detach())?;
    shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

fn gelu(x: &Tensor) -> Result<Tensor> {
    let u = ((x + (x.powf(3.0)? * 0.044715)?)? * (2.0 / std::f64::consts::PI).sqrt())?;
    ((u.tanh()? + 1.0)? * x)? * 0.5
}
