//! The head: logits and cross-entropy, block by block.

use std::ops::Range;

use super::vocabulary::{blocks_of, name_of, tokens_of};
use super::{GptConfig, HeadLogits};
use crate::kernels::cross_entropy::NUM_STATISTICS;
use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::layout;
use crate::loss::{CrossEntropy, Loss};
use crate::memory::ViewMut;
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};

/// `loss = sum of cross-entropy(x Wᵀ, targets)`, or a slice of it: the logits of the slice's tokens, and the loss where the slice
/// is the last.
///
/// Parameters: `lm_head.weight [V, C]`, or `wte.weight [V, C]` where the head is tied to the token embedding; or the slice's rows
/// of it.
///
/// Logits are computed and used in blocks of [`block_tokens`](super::block_tokens), and the input's gradient is the sum over the
/// blocks from the last to the first, so a slice changes no bit.
///
/// Kept for the backward, once for all slices: statistics of each row `[N, 3]`, and with [`HeadLogits::Keep`] the logits, block
/// after block `[N, tokens]`, where the input gradient puts their gradient.
#[derive(Debug)]
pub struct Head {
    name: String,
    weight_name: &'static str,
    slice: Slice,
    tokens: Range<usize>,
    vocab_size: usize,
    width: usize,
    init_std: f32,
    logits: HeadLogits,
}

impl Head {
    /// The layer of a model with this configuration, or a slice of it.
    pub fn new(config: &GptConfig, slice: Slice) -> Self {
        Self {
            name: name_of(slice, "lm_head"),
            weight_name: if config.tie_embeddings { "wte.weight" } else { "lm_head.weight" },
            slice,
            tokens: tokens_of(slice, config.vocab_size),
            vocab_size: config.vocab_size,
            width: config.hidden_size,
            init_std: config.init_std as f32,
            logits: config.vocabulary.head_logits,
        }
    }

    /// Elements of what is saved: statistics, logits.
    fn exact_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        let num_logits = match self.logits {
            HeadLogits::Keep => shape.num_tokens() * self.vocab_size,
            HeadLogits::Recompute => 0,
        };
        [NUM_STATISTICS * shape.num_tokens(), num_logits]
    }

    /// Elements of the workspace: the largest block's logits, where they are not kept.
    fn workspace_len(&self, shape: MicroBatchShape) -> usize {
        match self.logits {
            HeadLogits::Keep => 0,
            HeadLogits::Recompute => {
                shape.num_tokens() * self.blocks().next().map_or(0, |tokens| tokens.len())
            }
        }
    }

    fn blocks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> {
        blocks_of(self.tokens.clone(), self.vocab_size)
    }

    /// The logits of a block's tokens.
    fn linear(&self, shape: MicroBatchShape, tokens: &Range<usize>) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: tokens.len() }
    }

    /// A block's rows of the slice's weight, or of its gradient.
    fn rows(&self, tokens: &Range<usize>) -> Range<usize> {
        let place = |token: usize| (token - self.tokens.start) * self.width;
        place(tokens.start)..place(tokens.end)
    }

    /// A block's logits: where they are kept, or at the start of the workspace.
    fn block<'a>(
        &self,
        shape: MicroBatchShape,
        tokens: &Range<usize>,
        kept: &'a mut ViewMut<'_>,
        workspace: &'a mut ViewMut<'_>,
    ) -> ViewMut<'a> {
        let num_rows = shape.num_tokens();
        match self.logits {
            HeadLogits::Keep => kept.reborrow().range(num_rows * tokens.start..num_rows * tokens.end),
            HeadLogits::Recompute => workspace.reborrow().range(0..num_rows * tokens.len()),
        }
    }

    /// What the first block of a backward does to the input's gradient, and what the others do.
    fn mode(&self, tokens: &Range<usize>) -> WriteMode {
        if tokens.end == self.vocab_size { WriteMode::Overwrite } else { WriteMode::Add }
    }

    /// Logits, statistics and, where the slice is the last, the loss.
    fn logits_and_loss(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        args: RecomputeArgs<'_>,
        loss: ViewMut<'_>,
        mut row_logits: Option<RowLogits<'_>>,
    ) {
        let RecomputeArgs { tokens: read, parameters, input, exact, exact_workspace: mut workspace, .. } =
            args;
        let [mut statistics, mut kept] = layout::split_mut(exact, self.exact_lens(shape));
        for tokens in self.blocks() {
            let mut logits = self.block(shape, &tokens, &mut kept, &mut workspace);
            let weight = parameters.only().range(self.rows(&tokens));
            queue.linear(self.linear(shape, &tokens), input, weight, Onto::Nothing, logits.reborrow());
            let first_token = tokens.start as u32;
            queue.cross_entropy(first_token, logits.view(), read.targets, statistics.reborrow());
            if let Some(RowLogits { rows, logits: asked }) = row_logits.as_mut().map(RowLogits::reborrow) {
                let own = rows.len() * tokens.start..rows.len() * tokens.end;
                let rows = rows.start * tokens.len()..rows.end * tokens.len();
                queue.copy(logits.view().range(rows), asked.range(own));
            }
        }
        if self.slice.is_last() {
            queue.cross_entropy_loss(read.targets, statistics, loss);
        }
    }
}

impl Layer for Head {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let table = ParameterSpec::normal(self.weight_name, [self.vocab_size, self.width], self.init_std);
        vec![table.with_rows(self.tokens.clone())]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        LayerSizes {
            input: shape.num_tokens() * self.width,
            exact: layout::extent(self.exact_lens(shape)),
            exact_forward_workspace: self.workspace_len(shape),
            exact_backward_workspace: self.workspace_len(shape),
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear(shape, &self.tokens).flops()
    }

    fn backward_flops(&self, shape: MicroBatchShape) -> u64 {
        let num_products = if self.has_halves() { 2 } else { 3 };
        self.forward_flops(shape).saturating_mul(num_products)
    }

    fn table_slice(&self) -> Slice {
        self.slice
    }

    fn loss_description(&self) -> Option<String> {
        Some(CrossEntropy.description())
    }

    fn has_halves(&self) -> bool {
        self.logits == HeadLogits::Keep
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
        let BackwardInputArgs { tokens: read, parameters, input, exact, gradient, loss_seed, .. } = args;
        let mut workspace = args.exact_workspace;
        let [statistics, mut kept] = layout::split_mut(exact, self.exact_lens(shape));
        let mut dinput = gradient;
        for tokens in self.blocks().rev() {
            let mut logits = self.block(shape, &tokens, &mut kept, &mut workspace);
            let (first_token, kept, to) = (tokens.start as u32, statistics.view(), input.element_type());
            let own = logits.reborrow();
            queue.cross_entropy_backward(first_token, own, read.targets, kept, loss_seed, to);
            let (weight, mode) = (parameters.only().range(self.rows(&tokens)), self.mode(&tokens));
            let dlogits = logits.into_view().cast(to);
            queue.linear_backward_input(
                self.linear(shape, &tokens),
                dlogits,
                weight,
                dinput.reborrow(),
                mode,
            );
        }
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { input, exact, parameter_gradients, .. } = args;
        let mut sums = parameter_gradients.only();
        let [_, kept] = layout::split(exact, self.exact_lens(shape));
        let num_rows = shape.num_tokens();
        for tokens in self.blocks().rev() {
            let dlogits = kept.range(num_rows * tokens.start..num_rows * tokens.end);
            let dlogits = dlogits.cast(input.element_type());
            let sum = sums.reborrow().range(self.rows(&tokens));
            queue.linear_backward_weight(self.linear(shape, &tokens), dlogits, input, sum.to, sum.mode);
        }
    }

    /// A block at a time: its logits once more, their gradient, and what that adds to both gradients, or where it is frozen to that of the input.
    fn backward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardArgs<'_>) {
        let BackwardArgs {
            tokens: read,
            parameters,
            input,
            exact,
            gradient: mut dinput,
            mut parameter_gradients,
            exact_workspace: mut workspace,
            loss_seed,
            ..
        } = args;
        let [statistics, mut kept] = layout::split_mut(exact, self.exact_lens(shape));
        for tokens in self.blocks().rev() {
            let (linear, rows) = (self.linear(shape, &tokens), self.rows(&tokens));
            let mut logits = self.block(shape, &tokens, &mut kept, &mut workspace);
            let weight = parameters.only().range(rows.clone());
            queue.linear(linear, input, weight, Onto::Nothing, logits.reborrow());
            let (first_token, kept, to) = (tokens.start as u32, statistics.view(), input.element_type());
            let own = logits.reborrow();
            queue.cross_entropy_backward(first_token, own, read.targets, kept, loss_seed, to);
            let dlogits = logits.into_view().cast(to);
            queue.linear_backward_input(linear, dlogits, weight, dinput.reborrow(), self.mode(&tokens));
            if let Some(sums) = &mut parameter_gradients {
                let sum = sums.reborrow().only().range(rows);
                queue.linear_backward_weight(linear, dlogits, input, sum.to, sum.mode);
            }
        }
    }
}
