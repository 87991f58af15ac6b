//! What kernels are given together.

use crate::kernels::dropout::Masks;
use crate::kernels::rope::{Rope, Turn};
use crate::memory::{View, ViewMut};
use crate::micro_batch::MicroBatchShape;

/// What a linear map adds to its product `x Wᵀ: [N, O]`.
#[derive(Clone, Copy, Debug)]
pub enum Onto<'a> {
    /// Nothing.
    Nothing,
    /// `[O]`, to every row.
    Bias(View<'a>),
    /// `[N, O]`
    Residual(View<'a>),
    /// Both.
    BiasAndResidual {
        /// `[O]`, to every row.
        bias: View<'a>,
        /// `[N, O]`
        residual: View<'a>,
    },
}

impl<'a> Onto<'a> {
    /// A bias, or nothing where that is empty.
    pub fn bias(bias: View<'a>) -> Self {
        if bias.is_empty() { Self::Nothing } else { Self::Bias(bias) }
    }

    /// A residual, and a bias unless that is empty.
    pub fn residual(residual: View<'a>, bias: View<'a>) -> Self {
        if bias.is_empty() { Self::Residual(residual) } else { Self::BiasAndResidual { bias, residual } }
    }
}

/// The weight and bias of a layer norm or of a linear map.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a> {
    /// `[C]`, or `[O, I]` of a linear map.
    pub weight: View<'a>,
    /// `[C]`, or `[O]`; empty for an RMS norm.
    pub bias: View<'a>,
}

impl<'a> Affine<'a> {
    /// A weight without a bias.
    pub fn weight_alone(weight: View<'a>) -> Self {
        Self { weight, bias: weight.range(0..0) }
    }
}

/// What the backward of a norm reads beside its weight.
#[derive(Clone, Copy, Debug)]
pub struct NormGradient<'a> {
    /// `[N, C]`: what was normalised.
    pub x: View<'a>,
    /// `[N, 2]`, as the forward kept them.
    pub statistics: View<'a>,
    /// `[N, C]`: the gradient of what came of it.
    pub dy: View<'a>,
}

/// The weights of the norms of heads.
#[derive(Clone, Copy, Debug)]
pub struct HeadWeights<'a> {
    /// `[D]`: for every head of queries.
    pub queries: View<'a>,
    /// `[D]`: for every head of keys.
    pub keys: View<'a>,
}

/// Where position numbers of a micro-batch's tokens come from.
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a> {
    /// T.
    pub seq_length: usize,
    /// See [`Tokens::document_starts`](crate::layer::Tokens::document_starts).
    pub document_starts: Option<View<'a>>,
}

impl Positions<'_> {
    /// Of rows that are one document each, as a table of positions itself is.
    pub fn of_rows(shape: MicroBatchShape) -> Self {
        Self { seq_length: shape.seq_length, document_starts: None }
    }
}

/// How heads are turned.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// By which angles.
    pub rope: &'a Rope,
    /// Which way.
    pub turn: Turn,
    /// See [`Tokens::document_starts`](crate::layer::Tokens::document_starts).
    pub document_starts: Option<View<'a>>,
}

/// What attention hides, beside later tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// The probabilities that are dropped.
    pub dropout: Option<Masks>,
    /// See [`Tokens::document_starts`](crate::layer::Tokens::document_starts).
    pub document_starts: Option<View<'a>>,
}

/// What an attention keeps from its forward for its backward.
#[derive(Clone, Copy, Debug)]
pub struct Attended<'a> {
    /// `[N, C]`: the output.
    pub out: View<'a>,
    /// `[B, H, T]`
    pub log_sum_exp: View<'a>,
}

/// A kernel of one's own, which runs on the host: it is given what it reads and what it writes, in the order of the lists that it was
/// asked for with. It must not use a queue.
pub type HostKernel = Box<dyn FnOnce(&[View<'_>], Vec<ViewMut<'_>>) + Send>;
