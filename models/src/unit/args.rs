//! What a unit's passes work on: buffers that the caller owns.
//!
//! Workspaces, the gradient that runs through a unit and the gradients of parameters are `f32`; everything else is of
//! the unit's type.

use crate::buffer::Buffer;
use crate::layer::{RowLogits, Tokens};
use crate::memory::ViewMut;
use crate::views::{PartGradients, PartViews};

/// What a unit's forward works on.
#[derive(Debug)]
pub struct UnitForward<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's parameters, by part.
    pub parameters: PartViews<'a>,
    /// The input activation; may be longer; not read by a unit that begins with tokens.
    pub input: &'a Buffer,
    /// The output activation, overwritten; may be longer; not written by a unit that ends with the loss.
    pub output: &'a mut Buffer,
    /// `[UnitSizes::saved]`, overwritten; slices have one for all of them.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::recompute]` or longer, scratch for what segments save.
    pub recomputed: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
    /// See [`crate::layer::ForwardArgs::loss`].
    pub loss: ViewMut<'a>,
    /// See [`crate::layer::ForwardArgs::row_logits`].
    pub row_logits: Option<RowLogits<'a>>,
}

/// What a unit's recomputation works on.
#[derive(Debug)]
pub struct UnitRecompute<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's parameters, by part.
    pub parameters: PartViews<'a>,
    /// `[UnitSizes::saved]` of the forward; stays as it is.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::recompute]` or longer, overwritten.
    pub recomputed: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
}

/// What a unit's full backward works on.
#[derive(Debug)]
pub struct UnitBackward<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's parameters, by part; one need not be there where [`Unit::backward_reads`](super::Unit::backward_reads) is false.
    pub parameters: PartViews<'a>,
    /// `[UnitSizes::gradient]` or longer: the output's gradient on entry, the input's on return.
    pub gradient: &'a mut Buffer,
    /// `[UnitSizes::saved]`; its contents are used up.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::recompute]` or longer, as [`Unit::recompute`](super::Unit::recompute) left it; its contents are used up.
    pub recomputed: &'a mut Buffer,
    /// The gradients of the unit's parameters, by part, overwritten or added to; a part may be longer (padding). Elements that belong to
    /// no parameter become zero where it is overwritten. A part that is not there is frozen, which changes no bit of the other gradients; of a
    /// unit that is wholly frozen none is.
    pub parameter_gradients: PartGradients<'a>,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
    /// See [`crate::layer::BackwardInputArgs::loss_seed`].
    pub loss_seed: f32,
}

/// What a unit's input gradient works on.
#[derive(Debug)]
pub struct UnitBackwardInput<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's parameters, by part; one need not be there where [`Unit::backward_reads`](super::Unit::backward_reads) is false.
    pub parameters: PartViews<'a>,
    /// `[UnitSizes::gradient]` or longer: the output's gradient on entry, the input's on return.
    pub gradient: &'a mut Buffer,
    /// `[UnitSizes::saved]`; the weight gradient reads what is left here.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::weight_inputs]`, overwritten.
    pub weight_inputs: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
    /// See [`crate::layer::BackwardInputArgs::loss_seed`].
    pub loss_seed: f32,
}

/// What a unit's weight gradient works on.
#[derive(Debug)]
pub struct UnitBackwardWeight<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// `[UnitSizes::saved]` as the input gradient left it.
    pub saved: &'a Buffer,
    /// `[UnitSizes::weight_inputs]` as the input gradient left it.
    pub weight_inputs: &'a Buffer,
    /// The gradients of the unit's parameters, by part, overwritten or added to; a part may be longer (padding). Elements that belong to
    /// no parameter become zero where it is overwritten.
    pub parameter_gradients: PartGradients<'a>,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
}
