//! The head: logits and loss.

use std::sync::Arc;

use super::GptConfig;
use crate::kernels::linear::{self, LinearShape};
use crate::kernels::matmul::Store;
use crate::layer::*;
use crate::layout;
use crate::loss::Loss;
use crate::parameter::ParameterSpec;

/// `loss = sum of loss(x Wᵀ, targets)`.
///
/// Parameters: `lm_head.weight [V, C]`, or `wte.weight [V, C]` where the head is tied to the token embedding.
///
/// Kept for the backward: the logits `[N, V]`, **first in the saved region**, where generation reads them and the
/// input gradient puts their gradient; what the loss keeps of each row `[N]`.
#[derive(Debug)]
pub struct Head {
    weight_name: &'static str,
    vocab_size: usize,
    width: usize,
    init_std: f32,
    loss: Arc<dyn Loss>,
}

impl Head {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig, loss: Arc<dyn Loss>) -> Self {
        Self {
            weight_name: if config.tie_embeddings { "wte.weight" } else { "lm_head.weight" },
            vocab_size: config.vocab_size,
            width: config.hidden_size,
            init_std: config.init_std as f32,
            loss,
        }
    }

    fn saved_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.vocab_size, shape.num_tokens()]
    }

    fn logits_and_loss(
        &self,
        shape: MicroBatchShape,
        tokens: Tokens<'_>,
        weight: &[f32],
        input: &[f32],
        saved: &mut [f32],
    ) -> LossSum {
        let [logits, per_row] = layout::split_mut(saved, self.saved_lens(shape));
        linear::forward(self.linear(shape), input, weight, logits, Store::Assign);
        self.loss.forward(logits, tokens.targets, per_row)
    }

    fn linear(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: self.vocab_size }
    }
}

impl Layer for Head {
    fn name(&self) -> &str {
        "lm_head"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::normal(self.weight_name, [self.vocab_size, self.width], self.init_std)]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let saved = layout::extent(self.saved_lens(shape));
        LayerSizes {
            input: shape.num_tokens() * self.width,
            saved,
            // The loss is taken from f32 logits, and so is its gradient.
            saved_exact: saved,
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear(shape).flops()
    }

    fn forward(&self, shape: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        let ForwardArgs { tokens, parameters, input, saved, .. } = args;
        Some(self.logits_and_loss(shape, tokens, parameters, input, saved))
    }

    fn recompute(&self, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { tokens, parameters, input, saved, .. } = args;
        self.logits_and_loss(shape, tokens, parameters, input, saved);
    }

    fn backward_input(&self, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let [logits, per_row] = layout::split_mut(args.saved, self.saved_lens(shape));
        self.loss.backward(logits, args.tokens.targets, per_row, args.loss_seed);
        let dlogits = logits;
        linear::backward_input(self.linear(shape), dlogits, args.parameters, args.gradient);
    }

    fn backward_weight(&self, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [dlogits, _] = layout::split(args.saved, self.saved_lens(shape));
        linear::backward_weight(self.linear(shape), dlogits, args.input, args.parameter_gradients);
    }
}
