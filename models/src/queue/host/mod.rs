//! The host's queue: every kernel runs at once, on the threads of the caller's pool.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use half::{bf16, f16};

use super::gelu::{linear_then_gelu, linear_then_gelu_backward};
use super::{
    Affine, Attended, AttentionMask, Device, Event, HeadWeights, HostKernel, Mark, NormGradient, Onto,
    Positions, Queue, Rotation, Word,
};
use crate::buffer::Buffer;
use crate::element::{ElementType, Float, with_element};
use crate::error::ModelError;
use crate::kernels::adamw::{self, AdamWStep};
use crate::kernels::attention::{self, AttentionShape};
use crate::kernels::dropout::{self, Masks};
use crate::kernels::linear::{self, LinearShape};
use crate::kernels::matmul::WriteMode;
use crate::kernels::norm::Norm;
use crate::kernels::sgd::{self, SgdStep};
use crate::kernels::square_sum::{NUM_LIMBS, SquareSum};
use crate::kernels::{bias, convert, cross_entropy, embedding, gelu, head_norm, norm, rope, sum, swiglu};
use crate::memory::{View, ViewMut};
use crate::micro_batch::LossSum;

/// The queue of the CPU. It computes in `f32` alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

/// What the times of marks are counted from: the first mark of the process.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Evaluates an expression with a type alias for the floating-point type that an [`ElementType`] names.
macro_rules! with_float {
    ($element:expr, $name:ident => $body:expr) => {
        match $element {
            ElementType::F32 => {
                type $name = f32;
                $body
            }
            ElementType::Bf16 => {
                type $name = bf16;
                $body
            }
            ElementType::F16 => {
                type $name = f16;
                $body
            }
            ElementType::U32 => panic!("u32 is no floating-point type"),
        }
    };
}

impl Device for Host {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        Ok(Arc::new(Self))
    }
}

impl Queue for Host {
    fn zeros(&self, len: usize, element: ElementType) -> Result<Buffer, ModelError> {
        Buffer::zeros_of(len, element)
    }

    fn record(&self) -> Event {
        Event::REACHED
    }

    fn wait(&self, _: &Event, _: &'static str) {}

    fn has_reached(&self, _: &Event) -> Result<bool, ModelError> {
        Ok(true)
    }

    fn mark(&self) -> Mark {
        Mark { value: u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(u64::MAX) }
    }

    fn time_ns(&self, mark: Mark) -> u64 {
        mark.value
    }

    fn forget_marks(&self) {}

    fn word(&self) -> Word {
        Word::of_host()
    }

    fn set_word(&self, word: &Arc<Word>, value: u64) {
        word.store(value);
    }

    fn discard(&self, _: ViewMut<'_>) {}

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) {
        if from.element_type() != to.element_type() {
            return with_float!(from.element_type(), From => converted::<From>(from, to));
        }
        with_element!(from.element_type(), Of => to.slice::<Of>().copy_from_slice(from.slice()));
    }

    fn clear(&self, x: ViewMut<'_>) {
        with_element!(x.element_type(), Of => x.slice::<Of>().fill(Of::default()));
    }

    fn upload(&self, words: &[u32], to: ViewMut<'_>) {
        to.slice().copy_from_slice(words);
    }

    fn download(&self, from: View<'_>, words: &mut [u32]) -> Result<(), ModelError> {
        words.copy_from_slice(from.slice());
        Ok(())
    }

    fn round(&self, x: ViewMut<'_>, to: ElementType) {
        with_float!(to, To => convert::round::<To>(x.slice()));
    }

    fn narrow_rows(&self, x: ViewMut<'_>, width: usize, to: ElementType) {
        match to {
            ElementType::Bf16 => {
                convert::narrow_rows(x.slice(), width, |value| bf16::narrow(value).to_bits())
            }
            ElementType::F16 => convert::narrow_rows(x.slice(), width, |value| f16::narrow(value).to_bits()),
            other => panic!("{other:?} is no type of 16 bits"),
        }
    }

    fn upload_floats(&self, values: &[f32], to: ViewMut<'_>) {
        to.slice().copy_from_slice(values);
    }

    fn download_floats(&self, from: View<'_>, values: &mut [f32]) -> Result<(), ModelError> {
        values.copy_from_slice(from.slice());
        Ok(())
    }

    fn linear(&self, shape: LinearShape, x: View<'_>, weight: View<'_>, onto: Onto<'_>, y: ViewMut<'_>) {
        let y = y.slice();
        if let Onto::Bias(bias) | Onto::BiasAndResidual { bias, .. } = onto {
            assert_eq!(bias.len(), shape.num_outputs, "elements of the bias and outputs of the linear map");
        }
        let mode = match onto {
            Onto::Nothing => WriteMode::Overwrite,
            Onto::Bias(bias) => {
                bias::fill_rows(y, bias.slice());
                WriteMode::Add
            }
            Onto::Residual(residual) => {
                y.copy_from_slice(residual.slice());
                WriteMode::Add
            }
            Onto::BiasAndResidual { bias, residual } => {
                bias::add_to_rows(y, residual.slice(), bias.slice());
                WriteMode::Add
            }
        };
        linear::forward(shape, x.slice(), weight.slice(), y, mode);
    }

    fn linear_gelu(
        &self,
        shape: LinearShape,
        x: View<'_>,
        affine: Affine<'_>,
        before_gelu: ViewMut<'_>,
        y: ViewMut<'_>,
    ) {
        linear_then_gelu(self, shape, x, affine, before_gelu, y);
    }

    fn linear_gelu_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        x: ViewMut<'_>,
        dx: ViewMut<'_>,
    ) {
        linear_then_gelu_backward(self, shape, dy, weight, x, dx);
    }

    fn linear_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        linear::backward_input(shape, dy.slice(), weight.slice(), dx.slice(), mode);
    }

    fn linear_backward_weight(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        x: View<'_>,
        dweight: ViewMut<'_>,
        mode: WriteMode,
    ) {
        linear::backward_weight(shape, dy.slice(), x.slice(), dweight.slice(), mode);
    }

    fn bias_backward(&self, dy: View<'_>, dbias: ViewMut<'_>, mode: WriteMode) {
        bias::backward(dbias.slice(), dy.slice(), mode);
    }

    fn gelu(&self, x: View<'_>, y: ViewMut<'_>) {
        gelu::forward(x.slice(), y.slice());
    }

    fn gelu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>) {
        gelu::backward(x.slice(), dy.slice());
    }

    fn norm(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, y: ViewMut<'_>, statistics: ViewMut<'_>) {
        norm::forward(norm, x.slice(), on_host(affine), y.slice(), statistics.slice());
    }

    fn norm_statistics(&self, norm: Norm, x: View<'_>, width: usize, statistics: ViewMut<'_>) {
        norm::statistics(norm, x.slice(), width, statistics.slice());
    }

    fn norm_again(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, statistics: View<'_>, y: ViewMut<'_>) {
        norm::recompute(norm, x.slice(), on_host(affine), statistics.slice(), y.slice());
    }

    fn norm_backward_input(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let [x, statistics, dy] = [of.x, of.statistics, of.dy].map(View::slice);
        norm::backward_input(norm, x, weight.slice(), statistics, dy, dx.slice(), mode);
    }

    fn norm_backward_weight(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        dweight: ViewMut<'_>,
        dbias: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let [x, statistics, dy] = [of.x, of.statistics, of.dy].map(View::slice);
        norm::backward_weight(norm, x, statistics, dy, dweight.slice(), dbias.slice(), mode);
    }

    fn swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize) {
        swiglu::forward(x.slice(), y.slice(), width);
    }

    fn swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize) {
        swiglu::backward(x.slice(), dy.slice(), width);
    }

    fn rope(&self, shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>) {
        let Rotation { rope, turn, document_starts } = rotation;
        rope::turn(shape, document_starts.map(View::slice), rope, turn, qkv.slice());
    }

    fn head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    ) {
        head_norm::forward(shape, epsilon, x.slice(), head_weights_on_host(weights), y.slice());
    }

    fn head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    ) {
        head_norm::backward_input(shape, epsilon, x.slice(), head_weights_on_host(weights), dy.slice());
    }

    fn head_norm_backward_weight(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        dy: View<'_>,
        dweights: [ViewMut<'_>; 2],
        mode: WriteMode,
    ) {
        let dweights = dweights.map(ViewMut::slice);
        head_norm::backward_weight(shape, epsilon, x.slice(), dy.slice(), dweights, mode);
    }

    fn attention(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: View<'_>,
        out: ViewMut<'_>,
        log_sum_exp: ViewMut<'_>,
        workspace: ViewMut<'_>,
    ) {
        let (out, log_sum_exp) = (out.slice(), log_sum_exp.slice());
        attention::forward(shape, mask_on_host(mask), qkv.slice(), out, log_sum_exp, workspace.slice());
    }

    fn attention_backward(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: ViewMut<'_>,
        attended: Attended<'_>,
        dout: View<'_>,
        workspace: ViewMut<'_>,
    ) {
        let (out, log_sum_exp) = (attended.out.slice(), attended.log_sum_exp.slice());
        let (mask, dout) = (mask_on_host(mask), dout.slice());
        attention::backward(shape, mask, qkv.slice(), out, log_sum_exp, dout, workspace.slice());
    }

    fn dropout(&self, masks: Masks, x: ViewMut<'_>, width: usize) {
        dropout::apply(masks, x.slice(), width);
    }

    fn dropout_add_residual(&self, masks: Masks, x: View<'_>, y: ViewMut<'_>, width: usize) {
        dropout::add_residual(masks, x.slice(), y.slice(), width);
    }

    fn embedding(&self, tokens: View<'_>, first_token: u32, token_table: View<'_>, y: ViewMut<'_>) {
        embedding::forward(tokens.slice(), first_token, token_table.slice(), y.slice());
    }

    fn embedding_backward(
        &self,
        tokens: View<'_>,
        first_token: u32,
        dy: View<'_>,
        dtoken_table: ViewMut<'_>,
        mode: WriteMode,
    ) {
        embedding::backward(tokens.slice(), first_token, dy.slice(), dtoken_table.slice(), mode);
    }

    fn add_positions(&self, positions: Positions<'_>, table: View<'_>, y: ViewMut<'_>, width: usize) {
        let Positions { seq_length, document_starts } = positions;
        embedding::add_positions(
            seq_length,
            document_starts.map(View::slice),
            table.slice(),
            y.slice(),
            width,
        );
    }

    fn positions_backward(
        &self,
        positions: Positions<'_>,
        dy: View<'_>,
        dposition_table: ViewMut<'_>,
        width: usize,
        mode: WriteMode,
    ) {
        let Positions { seq_length, document_starts } = positions;
        let (starts, table) = (document_starts.map(View::slice), dposition_table.slice());
        embedding::backward_positions(seq_length, starts, dy.slice(), table, width, mode);
    }

    fn cross_entropy(&self, first_token: u32, logits: View<'_>, targets: View<'_>, statistics: ViewMut<'_>) {
        cross_entropy::forward(first_token, logits.slice(), targets.slice(), statistics.slice());
    }

    fn cross_entropy_loss(&self, targets: View<'_>, statistics: ViewMut<'_>, loss: ViewMut<'_>) {
        store(cross_entropy::loss(targets.slice(), statistics.slice()), loss);
    }

    fn cross_entropy_backward(
        &self,
        first_token: u32,
        logits: ViewMut<'_>,
        targets: View<'_>,
        statistics: View<'_>,
        seed: f32,
        to: ElementType,
    ) {
        let (mut logits, num_rows) = (logits, targets.len());
        let own = logits.reborrow().slice();
        cross_entropy::backward(first_token, own, targets.slice(), statistics.slice(), seed);
        if to != ElementType::F32 {
            let width = logits.len().checked_div(num_rows).unwrap_or(0);
            self.narrow_rows(logits, width, to);
        }
    }

    fn count_targets(&self, targets: View<'_>, loss: ViewMut<'_>) {
        store(cross_entropy::count(targets.slice()), loss);
    }

    fn add(&self, term: View<'_>, sum: ViewMut<'_>) {
        sum::add(sum.slice(), term.slice());
    }

    fn sum_in_order(&self, before: &[View<'_>], own: ViewMut<'_>, after: &[View<'_>]) {
        let [before, after] =
            [before, after].map(|terms| terms.iter().map(|term| term.slice()).collect::<Vec<_>>());
        sum::in_order(&before, own.slice(), &after);
    }

    fn add_squares(&self, x: View<'_>, squares: ViewMut<'_>) {
        let words: &mut [u32; NUM_LIMBS] =
            squares.slice().try_into().expect("an exact sum has so many words");
        let mut sum = SquareSum::from_limbs(words.map(u64::from));
        sum.add_slice(x.slice());
        *words = sum.words();
    }

    fn adamw(
        &self,
        step: AdamWStep,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        moments: [ViewMut<'_>; 2],
    ) {
        let [first, second] = moments;
        adamw::update(step, parameters.slice(), gradients.slice(), first.slice(), second.slice());
    }

    fn sgd(&self, step: SgdStep, parameters: ViewMut<'_>, gradients: View<'_>) {
        sgd::update(step, parameters.slice(), gradients.slice());
    }

    fn sgd_with_momentum(
        &self,
        step: SgdStep,
        momentum: f64,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        state: ViewMut<'_>,
    ) {
        let (parameters, gradients) = (parameters.slice(), gradients.slice());
        sgd::update_with_momentum(step, momentum, parameters, gradients, state.slice());
    }

    /// Returns when `duration` has passed since the call, however early a sleep may end.
    fn sleep(&self, duration: Duration) {
        let deadline = Instant::now() + duration;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left);
        }
    }

    fn on_host(&self, reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: HostKernel) {
        kernel(reads, writes);
    }
}

fn converted<From: Float>(from: View<'_>, to: ViewMut<'_>) {
    with_float!(to.element_type(), To => convert::convert::<From, To>(from.slice(), to.slice()));
}

fn on_host(affine: Affine<'_>) -> norm::Affine<'_> {
    norm::Affine { weight: affine.weight.slice(), bias: affine.bias.slice() }
}

fn mask_on_host(mask: AttentionMask<'_>) -> attention::Mask<'_> {
    attention::Mask { dropout: mask.dropout, document_starts: mask.document_starts.map(View::slice) }
}

fn head_weights_on_host(weights: HeadWeights<'_>) -> head_norm::HeadWeights<'_> {
    head_norm::HeadWeights { queries: weights.queries.slice(), keys: weights.keys.slice() }
}

fn store(sum: LossSum, loss: ViewMut<'_>) {
    if !loss.is_empty() {
        loss.slice().copy_from_slice(&sum.to_words());
    }
}
