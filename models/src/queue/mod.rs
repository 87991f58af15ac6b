//! A rank's compute queue: what layers, losses, optimizers and reductions ask a device to compute.
//!
//! One method is one kernel. Kernels run in the order in which they are asked for, perhaps later: a queue returns no value of
//! what it computes. Layers are written once over this trait; each device has a queue of its own.
//!
//! Legend for shapes: N rows, I inputs and O outputs of a linear map, C width, B sequences of T tokens, V vocabulary.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::Buffer;
use crate::element::ElementType;
use crate::error::ModelError;
use crate::kernels::adamw::AdamWStep;
use crate::kernels::attention::AttentionShape;
use crate::kernels::dropout::Masks;
use crate::kernels::linear::LinearShape;
use crate::kernels::matmul::WriteMode;
use crate::kernels::norm::Norm;
use crate::kernels::sgd::SgdStep;
use crate::memory::{View, ViewMut};

mod cuda;
mod deferred;
mod device;
mod event;
mod gelu;
mod gradients;
mod host;
mod kernel_times;
mod mark;
mod operands;
mod word;

pub use cuda::{
    Cuda, F32Products, HEAD_SIZE_MAX, Joining, NUM_TERMS_MAX, NcclCommunicator, NcclId, NoCuda, NoNccl,
    cuda_version, nccl_version,
};
pub use deferred::{Deferred, DeferredQueue};
pub use device::{Device, MemoryInUse};
pub use event::Event;
pub use host::Host;
pub use kernel_times::KernelTime;
pub use mark::Mark;
pub use operands::{
    Affine, Attended, AttentionMask, HeadWeights, HostKernel, NormGradient, Onto, Positions, Rotation,
};
pub use word::Word;

/// A queue of kernels on one device. Where nothing else is said, what is written is overwritten.
///
/// Parameters, activations and, within a layer, gradients of activations are of one type that the device
/// [computes in](Device::computes_in). `f32`, whatever that is, are statistics, logits, log-sum-exps, workspaces, gradients of parameters,
/// optimizer state, and the gradient that runs through a unit.
///
/// # Panics
/// If sizes or types do not fit, a bug of the caller.
pub trait Queue: Debug + Send + Sync {
    /// A buffer of zeros in the device's memory, which every queue of the device may use at once. When it is dropped, its memory is
    /// used for nothing else before the queues have done what they were asked to do with it.
    ///
    /// # Errors
    /// When the device has no such memory left.
    fn zeros(&self, len: usize, element: ElementType) -> Result<Buffer, ModelError>;

    /// The point that is reached once everything asked for before has been computed.
    fn record(&self) -> Event;

    /// What is asked for from now on is computed after another queue of the device has reached a point. `what` names the wait:
    /// [`Deferred::without`] leaves out those of a name.
    fn wait(&self, event: &Event, what: &'static str);

    /// Whether the device has reached a point of one of its queues. It returns at once: a caller that asks again and again can give up
    /// where the queue waits for what never comes, as [`Queue::download`] and [`Queue::time_ns`] cannot.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    fn has_reached(&self, event: &Event) -> Result<bool, ModelError>;

    /// Marks the point that is passed once everything asked for before has been computed.
    fn mark(&self) -> Mark;

    /// When this queue passed a mark of its own, in nanoseconds on the one clock of the device's queues, which a GPU reads to about half a
    /// microsecond. Waits until it has passed.
    ///
    /// # Panics
    /// On some devices, if the mark was [forgotten](Queue::forget_marks).
    fn time_ns(&self, mark: Mark) -> u64;

    /// Drops the times of all marks that were set so far, which the queue has kept until now.
    fn forget_marks(&self);

    /// A word that this queue may store.
    fn word(&self) -> Word;

    /// `word = value`, once everything asked for before has been computed. The host may read the word at any time.
    fn set_word(&self, word: &Arc<Word>, value: u64);

    /// Nobody will read what `x` holds now.
    fn discard(&self, x: ViewMut<'_>);

    /// `to = from`: bit for bit where the types are equal, otherwise converted, exactly to a wider type and to nearest even to
    /// a narrower one.
    fn copy(&self, from: View<'_>, to: ViewMut<'_>);

    /// Every element of `x` becomes zero.
    fn clear(&self, x: ViewMut<'_>);

    /// `to = words`, elements of `u32`. The words may be overwritten as soon as this returns.
    fn upload(&self, words: &[u32], to: ViewMut<'_>);

    /// `words = from`, elements of `u32`. Returns once everything asked for before has been computed.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed: the words are of no use then.
    fn download(&self, from: View<'_>, words: &mut [u32]) -> Result<(), ModelError>;

    /// As [`Queue::upload`], for elements of `f32`.
    fn upload_floats(&self, values: &[f32], to: ViewMut<'_>);

    /// As [`Queue::download`], for elements of `f32`.
    ///
    /// # Errors
    /// As [`Queue::download`].
    fn download_floats(&self, from: View<'_>, values: &mut [f32]) -> Result<(), ModelError>;

    /// Every element of `x` is converted to this type and back.
    fn round(&self, x: ViewMut<'_>, to: ElementType);

    /// Each row of `x: [N, width]` becomes elements of a 16-bit type at the beginning of the row's own bytes: the rest of them is used
    /// for nothing.
    fn narrow_rows(&self, x: ViewMut<'_>, width: usize, to: ElementType);

    /// `y = x Wᵀ` onto something, with `x: [N, I]`, `weight: [O, I]`, `y: [N, O]`.
    fn linear(&self, shape: LinearShape, x: View<'_>, weight: View<'_>, onto: Onto<'_>, y: ViewMut<'_>);

    /// `before_gelu = x Wᵀ + bias` and `y = gelu(before_gelu)`, with `x: [N, I]`, a linear map's `affine`, and outputs `[N, O]`. A device
    /// may give GELU the sum before it is rounded.
    fn linear_gelu(
        &self,
        shape: LinearShape,
        x: View<'_>,
        affine: Affine<'_>,
        before_gelu: ViewMut<'_>,
        y: ViewMut<'_>,
    );

    /// `dx = (dy W) gelu'(x)`, element by element, and then `x` becomes `gelu(x)`: the input gradient of a linear map behind a GELU that was
    /// given `x`. `x, dx: [N, I]`, `dy: [N, O]`, `weight: [O, I]`.
    fn linear_gelu_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        x: ViewMut<'_>,
        dx: ViewMut<'_>,
    );

    /// `dy W`, which overwrites `dx` or is added to it. In 16 bits, rows of `dy` may lie apart, as [`Queue::narrow_rows`] leaves them: its
    /// length says how far.
    fn linear_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    );

    /// `dyᵀ x`, which overwrites `dweight` or is added to it. Rows of `dy` may lie apart as there.
    fn linear_backward_weight(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        x: View<'_>,
        dweight: ViewMut<'_>,
        mode: WriteMode,
    );

    /// The sum over the rows of `dy: [N, O]`, which overwrites `dbias: [O]` or is added to it.
    fn bias_backward(&self, dy: View<'_>, dbias: ViewMut<'_>, mode: WriteMode);

    /// `y = gelu(x)`, by its approximation with tanh.
    fn gelu(&self, x: View<'_>, y: ViewMut<'_>);

    /// `dy` becomes the gradient of `x`, and `x` becomes `gelu(x)`.
    fn gelu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>);

    /// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias` over rows of `x, y: [N, C]`; keeps `statistics: [N, 2]`. An RMS norm
    /// has a mean of zero and an empty bias.
    fn norm(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, y: ViewMut<'_>, statistics: ViewMut<'_>);

    /// The statistics alone, of rows of `width`.
    fn norm_statistics(&self, norm: Norm, x: View<'_>, width: usize, statistics: ViewMut<'_>);

    /// `y` once more, from the statistics.
    fn norm_again(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, statistics: View<'_>, y: ViewMut<'_>);

    /// `dx: [N, C]`, overwritten or added to, from `weight: [C]`.
    fn norm_backward_input(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    );

    /// `dweight` and `dbias`, overwritten or added to.
    fn norm_backward_weight(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        dweight: ViewMut<'_>,
        dbias: ViewMut<'_>,
        mode: WriteMode,
    );

    /// `y = silu(gate) * up`, with `x: [N, 2 width]`, in each row gate and then up, and `y: [N, width]`.
    fn swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize);

    /// `x` becomes its gradient, and `dy` becomes `swiglu(x)`.
    fn swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize);

    /// Each head of queries and keys in `qkv: [N, H + 2 G, D]` is turned by its position's angles, in place.
    fn rope(&self, shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>);

    /// `y = x / sqrt(mean(x^2) + epsilon) * weight` for each head of queries and keys, with `x, y: [N, H + 2 G, D]`; values are copied.
    fn head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    );

    /// `x` becomes its gradient, given that of `y`; that of values is copied.
    fn head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    );

    /// The gradients of both weights, of queries and of keys, overwritten or added to.
    fn head_norm_backward_weight(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        dy: View<'_>,
        dweights: [ViewMut<'_>; 2],
        mode: WriteMode,
    );

    /// Causal attention: `out: [N, C]` from `qkv: [N, H + 2 G, D]`, and of them what `mask` does not hide; keeps `log_sum_exp: [B, H, T]`.
    /// The workspace has [`AttentionShape::forward_workspace`] elements.
    fn attention(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: View<'_>,
        out: ViewMut<'_>,
        log_sum_exp: ViewMut<'_>,
        workspace: ViewMut<'_>,
    );

    /// `qkv` becomes its gradient. The workspace has [`AttentionShape::backward_workspace`] elements.
    fn attention_backward(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: ViewMut<'_>,
        attended: Attended<'_>,
        dout: View<'_>,
        workspace: ViewMut<'_>,
    );

    /// Elements of `x: [N, width]` are dropped, the others scaled.
    fn dropout(&self, masks: Masks, x: ViewMut<'_>, width: usize);

    /// `y = x + dropout(y)`, over rows of `width`.
    fn dropout_add_residual(&self, masks: Masks, x: View<'_>, y: ViewMut<'_>, width: usize);

    /// `y[n] = token_table[tokens[n] - first_token]`, with `tokens: [N]` of `u32`, `token_table: [rows, C]`, `y: [N, C]`. Where a token
    /// is not in the table, which may be a slice of a vocabulary's, the row of `y` stays as it is.
    fn embedding(&self, tokens: View<'_>, first_token: u32, token_table: View<'_>, y: ViewMut<'_>);

    /// `dtoken_table[tokens[n] - first_token] += dy[n]`, in row order, onto what is there or onto zeros: rows that no token names become
    /// zero where the table is overwritten.
    fn embedding_backward(
        &self,
        tokens: View<'_>,
        first_token: u32,
        dy: View<'_>,
        dtoken_table: ViewMut<'_>,
        mode: WriteMode,
    );

    /// `y[b, t] += position_table[p]`, with `y: [B, T, width]` and the token's position number `p`.
    fn add_positions(&self, positions: Positions<'_>, position_table: View<'_>, y: ViewMut<'_>, width: usize);

    /// `dposition_table[p] += dy[b, t]`, document by document, onto what is there or onto zeros: positions that no token has become
    /// zero where the table is overwritten.
    fn positions_backward(
        &self,
        positions: Positions<'_>,
        dy: View<'_>,
        dposition_table: ViewMut<'_>,
        width: usize,
        mode: WriteMode,
    );

    /// Goes on with the softmax of rows of logits, of which `logits: [N, columns]` are those of the tokens from `first_token` on:
    /// `statistics: [N, NUM_STATISTICS]` are begun with token 0. `targets: [N]` are of `u32`. See
    /// [`cross_entropy`](crate::kernels::cross_entropy).
    fn cross_entropy(&self, first_token: u32, logits: View<'_>, targets: View<'_>, statistics: ViewMut<'_>);

    /// The summed cross-entropy once all logits have been seen, and how many targets count; the statistics become those that the
    /// backward needs. `loss` is [`LossSum::NUM_WORDS`](crate::layer::LossSum::NUM_WORDS) of `u32`, or empty where it is not
    /// asked for.
    fn cross_entropy_loss(&self, targets: View<'_>, statistics: ViewMut<'_>, loss: ViewMut<'_>);

    /// Logits of the tokens from `first_token` on become their gradient times `seed`: `softmax - one_hot(target)`, and zero where the
    /// target is ignored. The gradient has elements of type `to`; where these have 16 bits, rows lie as [`Queue::narrow_rows`] leaves them.
    fn cross_entropy_backward(
        &self,
        first_token: u32,
        logits: ViewMut<'_>,
        targets: View<'_>,
        statistics: View<'_>,
        seed: f32,
        to: ElementType,
    );

    /// One nat for each of the `targets: [N]` that counts, into `loss` as [`Queue::cross_entropy_loss`] has it.
    fn count_targets(&self, targets: View<'_>, loss: ViewMut<'_>);

    /// `sum += term`.
    fn add(&self, term: View<'_>, sum: ViewMut<'_>);

    /// `own` becomes the sum of `before`, `own` and `after`, in this order, element by element.
    fn sum_in_order(&self, before: &[View<'_>], own: ViewMut<'_>, after: &[View<'_>]);

    /// Adds the square of every element to an exact sum of [`NUM_LIMBS`](crate::kernels::square_sum::NUM_LIMBS) words of `u32`.
    fn add_squares(&self, x: View<'_>, squares: ViewMut<'_>);

    /// AdamW, with the first and the second moment. All views have one length.
    fn adamw(&self, step: AdamWStep, parameters: ViewMut<'_>, gradients: View<'_>, moments: [ViewMut<'_>; 2]);

    /// Stochastic gradient descent.
    fn sgd(&self, step: SgdStep, parameters: ViewMut<'_>, gradients: View<'_>);

    /// Stochastic gradient descent with momentum, which `state` holds.
    fn sgd_with_momentum(
        &self,
        step: SgdStep,
        momentum: f64,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        state: ViewMut<'_>,
    );

    /// The device is busy for this time.
    fn sleep(&self, duration: Duration);

    /// Runs a kernel of one's own on the host. A queue of another device copies what it reads and writes there, and what it writes
    /// back.
    fn on_host(&self, reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: HostKernel);
}
