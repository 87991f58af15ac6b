//! The head of a loss that the caller brings, which is given whole rows of logits.

use std::sync::Arc;

use super::GptConfig;
use super::vocabulary::{block_tokens, blocks_of};
use crate::element::ElementType;
use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::layout;
use crate::loss::Loss;
use crate::memory::{View, ViewMut};
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};

/// `loss = sum of loss(x Wᵀ, targets)`, for any loss: it may read all logits of a row at once, so they are kept and the table
/// is not cut.
///
/// Parameters: as a [`Head`](super::Head)'s.
///
/// Kept for the backward: the logits `[N, V]`, where the input gradient puts their gradient; what the loss keeps of each row.
#[derive(Debug)]
pub struct HeadWithLoss {
    weight_name: &'static str,
    num_logits: usize,
    width: usize,
    init_std: f32,
    loss: Arc<dyn Loss>,
}

impl HeadWithLoss {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig, loss: Arc<dyn Loss>) -> Self {
        Self {
            weight_name: if config.tie_embeddings { "wte.weight" } else { "lm_head.weight" },
            num_logits: config.vocab_size,
            width: config.hidden_size,
            init_std: config.init_std as f32,
            loss,
        }
    }

    /// The same with another number of outputs for each token, such as one value for a loss of values; never tied.
    pub fn of_width(config: &GptConfig, num_logits: usize, loss: Arc<dyn Loss>) -> Self {
        Self { weight_name: "lm_head.weight", num_logits, ..Self::new(config, loss) }
    }

    /// Elements of what is saved: logits, what the loss keeps.
    fn exact_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        let num_rows = shape.num_tokens();
        [num_rows * self.num_logits, num_rows * self.loss.num_kept_per_row()]
    }

    fn linear(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: self.num_logits }
    }

    fn logits_and_loss(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        args: RecomputeArgs<'_>,
        loss: ViewMut<'_>,
        row_logits: Option<RowLogits<'_>>,
    ) {
        let [mut logits, per_row] = layout::split_mut(args.exact, self.exact_lens(shape));
        queue.linear(
            self.linear(shape),
            args.input,
            args.parameters.only(),
            Onto::Nothing,
            logits.reborrow(),
        );
        let Tokens { targets, loss_inputs, .. } = args.tokens;
        self.loss.forward(queue, logits.view(), targets, loss_inputs, per_row, loss);
        if let Some(asked) = row_logits {
            self.hand_out(queue, logits.view(), asked);
        }
    }
}

impl HeadWithLoss {
    /// Copies the logits of rows to where they are asked for, block after block.
    fn hand_out(&self, queue: &dyn Queue, logits: View<'_>, asked: RowLogits<'_>) {
        let RowLogits { rows, logits: mut asked } = asked;
        if self.num_logits <= block_tokens(self.num_logits) || rows.len() == 1 {
            let elements = rows.start * self.num_logits..rows.end * self.num_logits;
            return queue.copy(logits.range(elements), asked);
        }
        let mut end = 0;
        for (row, tokens) in blocks_of(0..self.num_logits, self.num_logits)
            .flat_map(|block| rows.clone().map(move |row| (row, block.clone())))
        {
            let own = end..end + tokens.len();
            end = own.end;
            let elements = row * self.num_logits + tokens.start..row * self.num_logits + tokens.end;
            queue.copy(logits.range(elements), asked.reborrow().range(own));
        }
    }
}

impl Layer for HeadWithLoss {
    fn name(&self) -> &str {
        "lm_head"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::normal(self.weight_name, [self.num_logits, self.width], self.init_std)]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        LayerSizes {
            input: shape.num_tokens() * self.width,
            // The loss is taken from f32 logits, and so is its gradient.
            exact: layout::extent(self.exact_lens(shape)),
            ..LayerSizes::default()
        }
    }

    fn reads_whole_rows(&self) -> bool {
        true
    }

    fn num_logits(&self) -> Option<usize> {
        Some(self.num_logits)
    }

    fn loss_inputs(&self) -> LossInputs {
        LossInputs { per_token: self.loss.num_inputs_per_row(), needed: self.loss.needs_inputs() }
    }

    fn loss_parts(&self) -> &[&'static str] {
        self.loss.part_names()
    }

    fn loss_description(&self) -> Option<String> {
        Some(self.loss.description())
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear(shape).flops()
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let (recomputed, loss, row_logits) = args.into_recomputed();
        self.logits_and_loss(queue, shape, recomputed, loss, row_logits);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let (not_asked_for, saved) = args.saved.split_at(0);
        let args = RecomputeArgs { saved, ..args };
        self.logits_and_loss(queue, shape, args, not_asked_for, None);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let [mut logits, per_row] = layout::split_mut(args.exact, self.exact_lens(shape));
        let Tokens { targets, loss_inputs, .. } = args.tokens;
        self.loss.backward(queue, logits.reborrow(), targets, loss_inputs, per_row.view(), args.loss_seed);
        let to = args.input.element_type();
        if to != ElementType::F32 {
            queue.narrow_rows(logits.reborrow(), self.num_logits, to);
        }
        let dlogits = logits.into_view().cast(to);
        let mode = WriteMode::Overwrite;
        queue.linear_backward_input(self.linear(shape), dlogits, args.parameters.only(), args.gradient, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [dlogits, _] = layout::split(args.exact, self.exact_lens(shape));
        let (dlogits, sum) = (dlogits.cast(args.input.element_type()), args.parameter_gradients.only());
        queue.linear_backward_weight(self.linear(shape), dlogits, args.input, sum.to, sum.mode);
    }
}
