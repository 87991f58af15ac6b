//! The head: logits and loss.

use std::sync::Arc;

use super::GptConfig;
use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::layout;
use crate::loss::Loss;
use crate::memory::ViewMut;
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};

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
        queue: &dyn Queue,
        shape: MicroBatchShape,
        args: RecomputeArgs<'_>,
        loss: ViewMut<'_>,
    ) {
        let [mut logits, per_row] = layout::split_mut(args.saved, self.saved_lens(shape));
        queue.linear(self.linear(shape), args.input, args.parameters, Onto::Nothing, logits.reborrow());
        self.loss.forward(queue, logits.view(), args.tokens.targets, per_row, loss);
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

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let ForwardArgs { tokens, parameters, input, saved, workspace, loss, .. } = args;
        let kept = RecomputeArgs { tokens, parameters, input, saved, workspace };
        self.logits_and_loss(queue, shape, kept, loss);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { tokens, parameters, input, saved, workspace } = args;
        let (workspace, not_asked_for) = workspace.split_at(0);
        let kept = RecomputeArgs { tokens, parameters, input, saved, workspace };
        self.logits_and_loss(queue, shape, kept, not_asked_for);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let [mut logits, per_row] = layout::split_mut(args.saved, self.saved_lens(shape));
        let targets = args.tokens.targets;
        self.loss.backward(queue, logits.reborrow(), targets, per_row.view(), args.loss_seed);
        let dlogits = logits.view();
        queue.linear_backward_input(self.linear(shape), dlogits, args.parameters, args.gradient);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [dlogits, _] = layout::split(args.saved, self.saved_lens(shape));
        let sum = args.parameter_gradients;
        queue.linear_backward_weight(self.linear(shape), dlogits, args.input, sum, args.mode);
    }
}
