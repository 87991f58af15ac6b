//! A queue that asks the trap before everything that it is asked for.

use std::sync::Arc;
use std::time::Duration;

use pipezero_models::kernels::adamw::AdamWStep;
use pipezero_models::kernels::attention::AttentionShape;
use pipezero_models::kernels::dropout::Masks;
use pipezero_models::kernels::linear::LinearShape;
use pipezero_models::kernels::matmul::WriteMode;
use pipezero_models::kernels::norm::Norm;
use pipezero_models::kernels::sgd::SgdStep;
use pipezero_models::queue::{
    Affine, Attended, AttentionMask, Event, HeadWeights, HostKernel, Mark, NormGradient, Onto, Positions,
    Rotation, Word,
};
use pipezero_models::{Buffer, ElementType, ModelError, Queue, View, ViewMut};

use super::Trap;

#[derive(Debug)]
pub(super) struct TrapQueue {
    pub(super) inner: Arc<dyn Queue>,
    pub(super) trap: Arc<Trap>,
}

/// Methods that ask the trap and go on to the inner queue.
macro_rules! behind_the_trap {
    ($(fn $name:ident($($argument:ident: $of:ty),*) $(-> $returned:ty)?;)*) => {
        $(fn $name(&self, $($argument: $of),*) $(-> $returned)? {
            self.trap.pass();
            self.inner.$name($($argument),*)
        })*
    };
}

impl Queue for TrapQueue {
    fn download(&self, from: View<'_>, words: &mut [u32]) -> Result<(), ModelError> {
        self.trap.pass();
        self.trap.copies()?;
        self.inner.download(from, words)
    }

    fn download_floats(&self, from: View<'_>, values: &mut [f32]) -> Result<(), ModelError> {
        self.trap.pass();
        self.trap.copies()?;
        self.inner.download_floats(from, values)
    }

    behind_the_trap! {
        fn zeros(len: usize, element: ElementType) -> Result<Buffer, ModelError>;
        fn record() -> Event;
        fn wait(event: &Event, what: &'static str);
        fn has_reached(event: &Event) -> Result<bool, ModelError>;
        fn mark() -> Mark;
        fn time_ns(mark: Mark) -> u64;
        fn forget_marks();
        fn word() -> Word;
        fn set_word(word: &Arc<Word>, value: u64);
        fn discard(x: ViewMut<'_>);
        fn copy(from: View<'_>, to: ViewMut<'_>);
        fn clear(x: ViewMut<'_>);
        fn upload(words: &[u32], to: ViewMut<'_>);
        fn upload_floats(values: &[f32], to: ViewMut<'_>);
        fn round(x: ViewMut<'_>, to: ElementType);
        fn narrow_rows(x: ViewMut<'_>, width: usize, to: ElementType);
        fn linear(shape: LinearShape, x: View<'_>, weight: View<'_>, onto: Onto<'_>, y: ViewMut<'_>);
        fn linear_gelu(shape: LinearShape, x: View<'_>, affine: Affine<'_>, before_gelu: ViewMut<'_>, y: ViewMut<'_>);
        fn linear_gelu_backward_input(shape: LinearShape, dy: View<'_>, weight: View<'_>, x: ViewMut<'_>, dx: ViewMut<'_>);
        fn linear_backward_input(shape: LinearShape, dy: View<'_>, weight: View<'_>, dx: ViewMut<'_>, mode: WriteMode);
        fn linear_backward_weight(shape: LinearShape, dy: View<'_>, x: View<'_>, dweight: ViewMut<'_>, mode: WriteMode);
        fn bias_backward(dy: View<'_>, dbias: ViewMut<'_>, mode: WriteMode);
        fn gelu(x: View<'_>, y: ViewMut<'_>);
        fn gelu_backward(x: ViewMut<'_>, dy: ViewMut<'_>);
        fn norm(norm: Norm, x: View<'_>, affine: Affine<'_>, y: ViewMut<'_>, statistics: ViewMut<'_>);
        fn norm_statistics(norm: Norm, x: View<'_>, width: usize, statistics: ViewMut<'_>);
        fn norm_again(norm: Norm, x: View<'_>, affine: Affine<'_>, statistics: View<'_>, y: ViewMut<'_>);
        fn norm_backward_input(norm: Norm, of: NormGradient<'_>, weight: View<'_>, dx: ViewMut<'_>, mode: WriteMode);
        fn norm_backward_weight(norm: Norm, of: NormGradient<'_>, dweight: ViewMut<'_>, dbias: ViewMut<'_>, mode: WriteMode);
        fn swiglu(x: View<'_>, y: ViewMut<'_>, width: usize);
        fn swiglu_backward(x: ViewMut<'_>, dy: ViewMut<'_>, width: usize);
        fn rope(shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>);
        fn head_norm(shape: AttentionShape, epsilon: f32, x: View<'_>, weights: HeadWeights<'_>, y: ViewMut<'_>);
        fn head_norm_backward_input(shape: AttentionShape, epsilon: f32, x: ViewMut<'_>, weights: HeadWeights<'_>, dy: View<'_>);
        fn head_norm_backward_weight(shape: AttentionShape, epsilon: f32, x: View<'_>, dy: View<'_>, dweights: [ViewMut<'_>; 2], mode: WriteMode);
        fn attention(shape: AttentionShape, mask: AttentionMask<'_>, qkv: View<'_>, out: ViewMut<'_>, log_sum_exp: ViewMut<'_>, workspace: ViewMut<'_>);
        fn attention_backward(shape: AttentionShape, mask: AttentionMask<'_>, qkv: ViewMut<'_>, attended: Attended<'_>, dout: View<'_>, workspace: ViewMut<'_>);
        fn dropout(masks: Masks, x: ViewMut<'_>, width: usize);
        fn dropout_add_residual(masks: Masks, x: View<'_>, y: ViewMut<'_>, width: usize);
        fn embedding(tokens: View<'_>, first_token: u32, token_table: View<'_>, y: ViewMut<'_>);
        fn embedding_backward(tokens: View<'_>, first_token: u32, dy: View<'_>, dtoken_table: ViewMut<'_>, mode: WriteMode);
        fn add_positions(positions: Positions<'_>, position_table: View<'_>, y: ViewMut<'_>, width: usize);
        fn positions_backward(positions: Positions<'_>, dy: View<'_>, dposition_table: ViewMut<'_>, width: usize, mode: WriteMode);
        fn cross_entropy(first_token: u32, logits: View<'_>, targets: View<'_>, statistics: ViewMut<'_>);
        fn cross_entropy_loss(targets: View<'_>, statistics: ViewMut<'_>, loss: ViewMut<'_>);
        fn cross_entropy_backward(first_token: u32, logits: ViewMut<'_>, targets: View<'_>, statistics: View<'_>, seed: f32, to: ElementType);
        fn count_targets(targets: View<'_>, loss: ViewMut<'_>);
        fn add(term: View<'_>, sum: ViewMut<'_>);
        fn sum_in_order(before: &[View<'_>], own: ViewMut<'_>, after: &[View<'_>]);
        fn add_squares(x: View<'_>, squares: ViewMut<'_>);
        fn adamw(step: AdamWStep, parameters: ViewMut<'_>, gradients: View<'_>, moments: [ViewMut<'_>; 2]);
        fn sgd(step: SgdStep, parameters: ViewMut<'_>, gradients: View<'_>);
        fn sgd_with_momentum(step: SgdStep, momentum: f64, parameters: ViewMut<'_>, gradients: View<'_>, state: ViewMut<'_>);
        fn sleep(duration: Duration);
        fn on_host(reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: HostKernel);
    }
}
