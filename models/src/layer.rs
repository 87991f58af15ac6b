//! The smallest piece of a model that has its own forward and backward.
//!
//! Models are chains of layers. A layer knows its parameters and its calculus and nothing of ranks, stages,
//! shards, threads or devices: it asks a queue for kernels over views.
//!
//! Legend for shapes: B sequences of a micro-batch, T tokens of a sequence, N = B * T, C width, V vocabulary.
//!
//! The backward is split in two, as zero-bubble schedules need it (arXiv:2401.10241, section 2): the *input*
//! gradient reads weights and leaves what the *weight* gradient needs beside saved activations, its inputs, in `weight_inputs`; the
//! weight gradient reads these two, never a weight, and writes the gradients of parameters: the first one of a buffer overwrites it, the
//! next ones add to it, so that no buffer must be cleared. A full backward is one after the other, so a fused and a split
//! backward give the same bits.

use std::fmt::Debug;
use std::ops::Range;

use crate::input_encoder::{EncoderInputs, EncoderSpec};
use crate::kernels::dropout::{Dropout, Masks};
use crate::memory::{View, ViewMut};
use crate::parameter::ParameterSpec;
use crate::queue::{Positions, Queue};

pub use crate::kernels::matmul::WriteMode;
pub use crate::micro_batch::{IGNORED_TARGET, LossSum, MaskKey, MicroBatchShape};
pub use crate::views::{GradientView, GradientViews, ParameterViews};

/// The tokens of one micro-batch, read by the first layer and the loss, and what its random masks are drawn from. Where
/// neither is at hand there may be none.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `[B, T]` of `u32`: token numbers below the vocabulary size.
    pub inputs: View<'a>,
    /// `[B, T]` of `u32`: next tokens; [`IGNORED_TARGET`] carries no loss.
    pub targets: View<'a>,
    /// `[B, T]` of `u32`: of each token, the position in its row at which its document begins: that of the token before it, or its own. A
    /// token sees the earlier ones of its document alone, and position numbers are counted from there. `None` where every row is one
    /// document.
    pub document_starts: Option<View<'a>>,
    /// `[B, T, K]` of f32, what the loss reads of each token beside its target ([`Loss::num_inputs_per_row`](crate::Loss::num_inputs_per_row)).
    /// `None` where the source gave none, and on ranks that compute no loss.
    pub loss_inputs: Option<View<'a>>,
    /// What dropout's masks depend on; `None` drops nothing, as in an evaluation.
    pub masks: Option<MaskKey>,
    /// The inputs of the input encoder; `None` if there are none.
    pub encoder_inputs: Option<EncoderInputs<'a>>,
}

impl<'a> Tokens<'a> {
    /// Where position numbers come from.
    pub fn positions(self, shape: MicroBatchShape) -> Positions<'a> {
        Positions { seq_length: shape.seq_length, document_starts: self.document_starts }
    }

    /// The masks of a place that may drop elements; `None` where nothing is dropped.
    pub fn masks_of(self, dropout: Option<Dropout>, shape: MicroBatchShape) -> Option<Masks> {
        Some(dropout?.masks(self.masks?, shape))
    }
}

/// What a loss reads of each token beside its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossInputs {
    /// K: so many values of f32.
    pub per_token: usize,
    /// Whether a micro-batch without them is an error.
    pub needed: bool,
}

/// How many elements a layer needs for one micro-batch: of the type that the device computes in, those called exact of f32, whatever
/// the precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerSizes {
    /// Elements of the input activation; 0 for a layer that reads tokens.
    pub input: usize,
    /// Elements of the output activation; 0 for the loss.
    pub output: usize,
    /// Elements kept from forward to backward, beside the input.
    pub saved: usize,
    /// The same in f32: statistics, and what a loss is computed from.
    pub exact: usize,
    /// Elements that the input gradient passes to the weight gradient.
    pub weight_inputs: usize,
    /// The same in f32: gradients of parameters.
    pub exact_weight_inputs: usize,
    /// Scratch elements of the forward; contents are not kept between calls.
    pub forward_workspace: usize,
    /// The same in f32.
    pub exact_forward_workspace: usize,
    /// Scratch elements of either half of the backward. A full backward needs the weight-gradient inputs beside it.
    pub backward_workspace: usize,
    /// The same in f32.
    pub exact_backward_workspace: usize,
    /// f32 elements that a pass allocates itself, beside the buffers that it is given, at most.
    pub allocated: usize,
}

/// What a forward works on.
#[derive(Debug)]
pub struct ForwardArgs<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The layer's parameters, in the order of declaration.
    pub parameters: ParameterViews<'a>,
    /// `[input]`; stays as it is until the backward.
    pub input: View<'a>,
    /// `[output]`, overwritten.
    pub output: ViewMut<'a>,
    /// `[saved]`, overwritten.
    pub saved: ViewMut<'a>,
    /// `[exact]`, overwritten.
    pub exact: ViewMut<'a>,
    /// `[forward_workspace]`, contents undefined.
    pub workspace: ViewMut<'a>,
    /// `[exact_forward_workspace]`, contents undefined.
    pub exact_workspace: ViewMut<'a>,
    /// `[(1 + parts) * LossSum::NUM_WORDS]` of `u32`, overwritten by a layer that computes the loss, and
    /// [its parts](crate::Loss::part_names) behind it; empty where it is not asked for.
    pub loss: ViewMut<'a>,
    /// Where a head puts the logits of some rows, if they are asked for.
    pub row_logits: Option<RowLogits<'a>>,
}

impl<'a> ForwardArgs<'a> {
    /// What a recomputation works on, which does the first part of the forward.
    pub fn recomputed(&mut self) -> RecomputeArgs<'_> {
        RecomputeArgs {
            tokens: self.tokens,
            parameters: self.parameters,
            input: self.input,
            saved: self.saved.reborrow(),
            exact: self.exact.reborrow(),
            workspace: self.workspace.reborrow(),
            exact_workspace: self.exact_workspace.reborrow(),
        }
    }

    /// The same for a head, and what it may be asked for beside it: [`ForwardArgs::loss`], [`ForwardArgs::row_logits`].
    pub fn into_recomputed(self) -> (RecomputeArgs<'a>, ViewMut<'a>, Option<RowLogits<'a>>) {
        let Self { tokens, parameters, input, saved, exact, workspace, exact_workspace, .. } = self;
        let recomputed =
            RecomputeArgs { tokens, parameters, input, saved, exact, workspace, exact_workspace };
        (recomputed, self.loss, self.row_logits)
    }
}

/// The logits of some rows: of one, as generation reads them, or of all.
#[derive(Debug)]
pub struct RowLogits<'a> {
    /// The rows: tokens after each of which they say what may follow.
    pub rows: Range<usize>,
    /// `[rows, V]`, overwritten, block after block of the vocabulary as a head computes them: of each block of
    /// [`block_tokens`](crate::shared::block_tokens) `[rows, tokens of the block]`. A head that is a slice of the vocabulary
    /// writes its own blocks alone.
    pub logits: ViewMut<'a>,
}

impl RowLogits<'_> {
    /// The same elements, for a layer that is not the last to write them.
    pub fn reborrow(&mut self) -> RowLogits<'_> {
        RowLogits { rows: self.rows.clone(), logits: self.logits.reborrow() }
    }
}

/// What a recomputation works on.
#[derive(Debug)]
pub struct RecomputeArgs<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The layer's parameters.
    pub parameters: ParameterViews<'a>,
    /// `[input]` of the forward.
    pub input: View<'a>,
    /// `[saved]`, overwritten.
    pub saved: ViewMut<'a>,
    /// `[exact]`, overwritten.
    pub exact: ViewMut<'a>,
    /// `[forward_workspace]`, contents undefined.
    pub workspace: ViewMut<'a>,
    /// `[exact_forward_workspace]`, contents undefined.
    pub exact_workspace: ViewMut<'a>,
}

/// What an input gradient works on.
#[derive(Debug)]
pub struct BackwardInputArgs<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The layer's parameters.
    pub parameters: ParameterViews<'a>,
    /// `[input]` of the forward.
    pub input: View<'a>,
    /// `[saved]` of the forward; may be overwritten, the weight gradient sees the result.
    pub saved: ViewMut<'a>,
    /// `[exact]` of the forward; the same is true of it.
    pub exact: ViewMut<'a>,
    /// `[max(input, output)]` of f32: the output's gradient on entry (first `output` elements), the input's gradient on
    /// return (first `input` elements).
    pub gradient: ViewMut<'a>,
    /// `[weight_inputs]`, overwritten.
    pub weight_inputs: ViewMut<'a>,
    /// `[exact_weight_inputs]`, overwritten.
    pub exact_weight_inputs: ViewMut<'a>,
    /// `[backward_workspace]`, contents undefined.
    pub workspace: ViewMut<'a>,
    /// `[exact_backward_workspace]`, contents undefined.
    pub exact_workspace: ViewMut<'a>,
    /// What the loss's gradient is seeded with: 1 / targets of the whole step, were none ignored.
    pub loss_seed: f32,
}

/// What a weight gradient works on.
#[derive(Debug)]
pub struct BackwardWeightArgs<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// `[input]` of the forward.
    pub input: View<'a>,
    /// `[saved]` as the input gradient left it.
    pub saved: View<'a>,
    /// `[exact]` as the input gradient left it.
    pub exact: View<'a>,
    /// `[weight_inputs]` as the input gradient left it.
    pub weight_inputs: View<'a>,
    /// `[exact_weight_inputs]` as the input gradient left it.
    pub exact_weight_inputs: View<'a>,
    /// The gradients of the layer's parameters: each says whether it is overwritten or added to.
    pub parameter_gradients: GradientViews<'a>,
}

/// What a backward works on that has no halves.
#[derive(Debug)]
pub struct BackwardArgs<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The layer's parameters.
    pub parameters: ParameterViews<'a>,
    /// `[input]` of the forward.
    pub input: View<'a>,
    /// `[saved]` of the forward.
    pub saved: ViewMut<'a>,
    /// `[exact]` of the forward.
    pub exact: ViewMut<'a>,
    /// See [`BackwardInputArgs::gradient`].
    pub gradient: ViewMut<'a>,
    /// Where the gradients of its parameters go; `None` where the layer is frozen, and only its input's gradient is asked for.
    pub parameter_gradients: Option<GradientViews<'a>>,
    /// `[backward_workspace]`, contents undefined.
    pub workspace: ViewMut<'a>,
    /// `[exact_backward_workspace]`, contents undefined.
    pub exact_workspace: ViewMut<'a>,
    /// See [`BackwardInputArgs::loss_seed`].
    pub loss_seed: f32,
}

/// Which of several layers a layer is that share the rows of one table: siblings, one behind the other in the chain.
///
/// Siblings have one input, one output and one gradient: the first of them is given the input, each adds its part to what the ones
/// before it left, and what they save from forward to backward lies in one place, of which each is given all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// Which one, from 0.
    pub index: usize,
    /// How many there are.
    pub num_slices: usize,
}

impl Slice {
    /// The only one: every layer that has no siblings.
    pub const WHOLE: Self = Self { index: 0, num_slices: 1 };

    /// Whether it is the first one in forwards, and the last in backwards.
    pub fn is_first(self) -> bool {
        self.index == 0
    }

    /// Whether it is the last one in forwards, and the first in backwards.
    pub fn is_last(self) -> bool {
        self.index + 1 == self.num_slices
    }
}

/// A piece of a model with explicit forward and backward.
pub trait Layer: Debug + Send + Sync {
    /// The layer's name, unique in the model: `h.3.attn`.
    fn name(&self) -> &str;

    /// The parameters in declaration order.
    fn parameters(&self) -> Vec<ParameterSpec>;

    /// What the layer needs for a micro-batch of this shape.
    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes;

    /// Floating-point operations of a forward's matrix products (a multiply-add counts two). Elementwise work is left out, as is
    /// usual where utilisation is reported.
    fn forward_flops(&self, _shape: MicroBatchShape) -> u64 {
        0
    }

    /// Those of [`Layer::forward_flops`] that attention does itself, which stay in f32 where a run asks for TF32.
    fn attention_flops(&self, _shape: MicroBatchShape) -> u64 {
        0
    }

    /// As [`Layer::forward_flops`], of the backward.
    fn backward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.forward_flops(shape).saturating_mul(2)
    }

    /// Which of its siblings it is.
    fn table_slice(&self) -> Slice {
        Slice::WHOLE
    }

    /// Whether it is a head whose loss reads whole rows of logits, which are then kept whatever the run says of logits.
    fn reads_whole_rows(&self) -> bool {
        false
    }

    /// The logits of a head for each token, where they are not as many as the vocabulary has entries: one of a head of values.
    fn num_logits(&self) -> Option<usize> {
        None
    }

    /// What the head's loss reads of each token, and needs to.
    fn loss_inputs(&self) -> LossInputs {
        LossInputs::default()
    }

    /// What the head's loss [reports beside its value](crate::Loss::part_names).
    fn loss_parts(&self) -> &[&'static str] {
        &[]
    }

    /// The quantity that the head's loss [minimises](crate::Loss::description); `None` of other layers.
    fn loss_description(&self) -> Option<String> {
        None
    }

    /// Whether the backward can be run in halves. A layer that recomputes piece by piece what it did not save has none.
    fn has_halves(&self) -> bool {
        true
    }

    /// Whether it runs on the host alone.
    fn is_host_only(&self) -> bool {
        false
    }

    /// Which inputs it takes besides tokens, if it is an input encoder. A model has at most one, which is a unit of its own.
    fn input_encoder(&self) -> Option<&EncoderSpec> {
        None
    }

    /// Whether the input gradient reads the parameters; false for an embedding.
    fn backward_reads_weights(&self) -> bool {
        true
    }

    /// Computes the output from the input and keeps what the backward needs.
    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>);

    /// Writes once more what the forward saved, to the bit, and not the output: a backward that was given the saved
    /// values has no use for it.
    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>);

    /// Turns the gradient of the output into that of the input.
    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>);

    /// Writes the gradient of the parameters, of every element: where it overwrites, what gets no gradient becomes zero. A
    /// parameter that is used twice overwrites once and adds then. Elements between parameters are the unit's to clear.
    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>);

    /// The whole backward of a layer without halves.
    ///
    /// # Panics
    /// If the layer has halves: they are what is run, one after the other.
    fn backward(&self, _queue: &dyn Queue, _shape: MicroBatchShape, _args: BackwardArgs<'_>) {
        unreachable!("the backward of {} is run in halves", self.name())
    }
}
