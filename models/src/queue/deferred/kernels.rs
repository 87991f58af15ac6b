//! Every kernel, asked for now and run later by the host's.

use std::sync::Arc;
use std::time::Duration;

use half::{bf16, f16};

use super::DeferredQueue;
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
use crate::queue::{
    Affine, Attended, AttentionMask, Event, HeadWeights, Host, HostKernel, Mark, NormGradient, Onto,
    Positions, Queue, Rotation, Word,
};

impl Queue for DeferredQueue {
    fn zeros(&self, len: usize, element: ElementType) -> Result<Buffer, ModelError> {
        Buffer::zeros_of(len, element)
    }

    fn record(&self) -> Event {
        self.device.lock().record(self.number)
    }

    fn wait(&self, event: &Event, what: &'static str) {
        self.device.lock().wait(self.number, event, what);
    }

    fn has_reached(&self, event: &Event) -> Result<bool, ModelError> {
        if let Some(message) = self.device.failure() {
            return Err(ModelError::Device { reason: message });
        }
        Ok(self.device.lock().run_towards(event))
    }

    fn mark(&self) -> Mark {
        self.device.lock().mark(self.number)
    }

    fn time_ns(&self, mark: Mark) -> u64 {
        self.device.ahead_ns + self.device.lock().time(self.number, mark)
    }

    fn forget_marks(&self) {
        self.device.lock().forget_marks(self.number);
    }

    fn word(&self) -> Word {
        Host.word()
    }

    fn set_word(&self, word: &Arc<Word>, value: u64) {
        let word = Arc::clone(word);
        self.ask([], [], move |[], []| Host.set_word(&word, value));
    }

    fn discard(&self, x: ViewMut<'_>) {
        self.ask([], [x], |[], [x]| match x.element_type() {
            ElementType::F32 => x.slice().fill(f32::NAN),
            ElementType::Bf16 => x.slice().fill(bf16::NAN),
            ElementType::F16 => x.slice().fill(f16::NAN),
            ElementType::U32 => x.slice().fill(u32::MAX - 1),
        });
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) {
        self.ask([from], [to], |[from], [to]| Host.copy(from, to));
    }

    fn clear(&self, x: ViewMut<'_>) {
        self.ask([], [x], |[], [x]| Host.clear(x));
    }

    fn upload(&self, words: &[u32], to: ViewMut<'_>) {
        let words = words.to_vec();
        self.ask([], [to], move |[], [to]| Host.upload(&words, to));
    }

    fn download(&self, from: View<'_>, words: &mut [u32]) -> Result<(), ModelError> {
        words.copy_from_slice(&self.read(from, |from| from.slice().to_vec()));
        Ok(())
    }

    fn upload_floats(&self, values: &[f32], to: ViewMut<'_>) {
        let values = values.to_vec();
        self.ask([], [to], move |[], [to]| Host.upload_floats(&values, to));
    }

    fn download_floats(&self, from: View<'_>, values: &mut [f32]) -> Result<(), ModelError> {
        values.copy_from_slice(&self.read(from, |from| from.slice().to_vec()));
        Ok(())
    }

    fn round(&self, x: ViewMut<'_>, to: ElementType) {
        self.ask([], [x], move |[], [x]| Host.round(x, to));
    }

    fn narrow_rows(&self, x: ViewMut<'_>, width: usize, to: ElementType) {
        self.ask([], [x], move |[], [x]| Host.narrow_rows(x, width, to));
    }

    fn linear(&self, shape: LinearShape, x: View<'_>, weight: View<'_>, onto: Onto<'_>, y: ViewMut<'_>) {
        match onto {
            Onto::Nothing => self.ask([x, weight], [y], move |[x, weight], [y]| {
                Host.linear(shape, x, weight, Onto::Nothing, y);
            }),
            Onto::Bias(bias) => self.ask([x, weight, bias], [y], move |[x, weight, bias], [y]| {
                Host.linear(shape, x, weight, Onto::Bias(bias), y);
            }),
            Onto::Residual(residual) => {
                self.ask([x, weight, residual], [y], move |[x, weight, residual], [y]| {
                    Host.linear(shape, x, weight, Onto::Residual(residual), y);
                })
            }
            Onto::BiasAndResidual { bias, residual } => {
                self.ask([x, weight, bias, residual], [y], move |[x, weight, bias, residual], [y]| {
                    Host.linear(shape, x, weight, Onto::BiasAndResidual { bias, residual }, y);
                });
            }
        }
    }

    fn linear_gelu(
        &self,
        shape: LinearShape,
        x: View<'_>,
        affine: Affine<'_>,
        before_gelu: ViewMut<'_>,
        y: ViewMut<'_>,
    ) {
        let reads = [x, affine.weight, affine.bias];
        self.ask(reads, [before_gelu, y], move |[x, weight, bias], [before_gelu, y]| {
            Host.linear_gelu(shape, x, Affine { weight, bias }, before_gelu, y);
        });
    }

    fn linear_gelu_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        x: ViewMut<'_>,
        dx: ViewMut<'_>,
    ) {
        self.ask([dy, weight], [x, dx], move |[dy, weight], [x, dx]| {
            Host.linear_gelu_backward_input(shape, dy, weight, x, dx);
        });
    }

    fn linear_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.ask([dy, weight], [dx], move |[dy, weight], [dx]| {
            Host.linear_backward_input(shape, dy, weight, dx, mode);
        });
    }

    fn linear_backward_weight(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        x: View<'_>,
        dweight: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.ask([dy, x], [dweight], move |[dy, x], [dweight]| {
            Host.linear_backward_weight(shape, dy, x, dweight, mode);
        });
    }

    fn bias_backward(&self, dy: View<'_>, dbias: ViewMut<'_>, mode: WriteMode) {
        self.ask([dy], [dbias], move |[dy], [dbias]| Host.bias_backward(dy, dbias, mode));
    }

    fn gelu(&self, x: View<'_>, y: ViewMut<'_>) {
        self.ask([x], [y], |[x], [y]| Host.gelu(x, y));
    }

    fn gelu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>) {
        self.ask([], [x, dy], |[], [x, dy]| Host.gelu_backward(x, dy));
    }

    fn norm(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, y: ViewMut<'_>, statistics: ViewMut<'_>) {
        let Affine { weight, bias } = affine;
        self.ask([x, weight, bias], [y, statistics], move |[x, weight, bias], [y, statistics]| {
            Host.norm(norm, x, Affine { weight, bias }, y, statistics);
        });
    }

    fn norm_statistics(&self, norm: Norm, x: View<'_>, width: usize, statistics: ViewMut<'_>) {
        self.ask([x], [statistics], move |[x], [statistics]| {
            Host.norm_statistics(norm, x, width, statistics);
        });
    }

    fn norm_again(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, statistics: View<'_>, y: ViewMut<'_>) {
        let Affine { weight, bias } = affine;
        self.ask([x, weight, bias, statistics], [y], move |[x, weight, bias, statistics], [y]| {
            Host.norm_again(norm, x, Affine { weight, bias }, statistics, y);
        });
    }

    fn norm_backward_input(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let NormGradient { x, statistics, dy } = of;
        self.ask([x, weight, statistics, dy], [dx], move |[x, weight, statistics, dy], [dx]| {
            Host.norm_backward_input(norm, NormGradient { x, statistics, dy }, weight, dx, mode);
        });
    }

    fn norm_backward_weight(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        dweight: ViewMut<'_>,
        dbias: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let NormGradient { x, statistics, dy } = of;
        self.ask([x, statistics, dy], [dweight, dbias], move |[x, statistics, dy], [dweight, dbias]| {
            Host.norm_backward_weight(norm, NormGradient { x, statistics, dy }, dweight, dbias, mode);
        });
    }

    fn swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize) {
        self.ask([x], [y], move |[x], [y]| Host.swiglu(x, y, width));
    }

    fn swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize) {
        self.ask([], [x, dy], move |[], [x, dy]| Host.swiglu_backward(x, dy, width));
    }

    fn rope(&self, shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>) {
        let Rotation { rope, turn, document_starts } = rotation;
        let rope = rope.clone();
        let starts: Vec<View<'_>> = document_starts.into_iter().collect();
        self.ask_many(&starts, vec![qkv], move |starts, qkv| {
            let document_starts = starts.first().copied();
            let rotation = Rotation { rope: &rope, turn, document_starts };
            qkv.into_iter().for_each(|qkv| Host.rope(shape, rotation, qkv));
        });
    }

    fn head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    ) {
        let HeadWeights { queries, keys } = weights;
        self.ask([x, queries, keys], [y], move |[x, queries, keys], [y]| {
            Host.head_norm(shape, epsilon, x, HeadWeights { queries, keys }, y);
        });
    }

    fn head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    ) {
        let HeadWeights { queries, keys } = weights;
        self.ask([queries, keys, dy], [x], move |[queries, keys, dy], [x]| {
            Host.head_norm_backward_input(shape, epsilon, x, HeadWeights { queries, keys }, dy);
        });
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
        self.ask([x, dy], dweights, move |[x, dy], dweights| {
            Host.head_norm_backward_weight(shape, epsilon, x, dy, dweights, mode);
        });
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
        let (dropout, starts) = (mask.dropout, or_none(mask.document_starts, qkv));
        let writes = [out, log_sum_exp, workspace];
        self.ask([qkv, starts], writes, move |[qkv, starts], [out, log_sum_exp, workspace]| {
            let mask = AttentionMask { dropout, document_starts: if_any(starts) };
            Host.attention(shape, mask, qkv, out, log_sum_exp, workspace);
        });
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
        let Attended { out, log_sum_exp } = attended;
        let (dropout, starts) = (mask.dropout, or_none(mask.document_starts, dout));
        self.ask(
            [out, log_sum_exp, dout, starts],
            [qkv, workspace],
            move |[out, log_sum_exp, dout, starts], [qkv, workspace]| {
                let mask = AttentionMask { dropout, document_starts: if_any(starts) };
                Host.attention_backward(shape, mask, qkv, Attended { out, log_sum_exp }, dout, workspace);
            },
        );
    }

    fn dropout(&self, masks: Masks, x: ViewMut<'_>, width: usize) {
        self.ask([], [x], move |[], [x]| Host.dropout(masks, x, width));
    }

    fn dropout_add_residual(&self, masks: Masks, x: View<'_>, y: ViewMut<'_>, width: usize) {
        self.ask([x], [y], move |[x], [y]| Host.dropout_add_residual(masks, x, y, width));
    }

    fn embedding(&self, tokens: View<'_>, first_token: u32, token_table: View<'_>, y: ViewMut<'_>) {
        self.ask([tokens, token_table], [y], move |[tokens, token_table], [y]| {
            Host.embedding(tokens, first_token, token_table, y);
        });
    }

    fn embedding_backward(
        &self,
        tokens: View<'_>,
        first_token: u32,
        dy: View<'_>,
        dtoken_table: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.ask([tokens, dy], [dtoken_table], move |[tokens, dy], [dtoken_table]| {
            Host.embedding_backward(tokens, first_token, dy, dtoken_table, mode);
        });
    }

    fn add_positions(&self, positions: Positions<'_>, table: View<'_>, y: ViewMut<'_>, width: usize) {
        let (seq_length, starts) = (positions.seq_length, or_none(positions.document_starts, table));
        self.ask([table, starts], [y], move |[table, starts], [y]| {
            Host.add_positions(Positions { seq_length, document_starts: if_any(starts) }, table, y, width);
        });
    }

    fn positions_backward(
        &self,
        positions: Positions<'_>,
        dy: View<'_>,
        dposition_table: ViewMut<'_>,
        width: usize,
        mode: WriteMode,
    ) {
        let (seq_length, starts) = (positions.seq_length, or_none(positions.document_starts, dy));
        self.ask([dy, starts], [dposition_table], move |[dy, starts], [dposition_table]| {
            let positions = Positions { seq_length, document_starts: if_any(starts) };
            Host.positions_backward(positions, dy, dposition_table, width, mode);
        });
    }

    fn cross_entropy(&self, first_token: u32, logits: View<'_>, targets: View<'_>, statistics: ViewMut<'_>) {
        self.ask([logits, targets], [statistics], move |[logits, targets], [statistics]| {
            Host.cross_entropy(first_token, logits, targets, statistics);
        });
    }

    fn cross_entropy_loss(&self, targets: View<'_>, statistics: ViewMut<'_>, loss: ViewMut<'_>) {
        self.ask([targets], [statistics, loss], |[targets], [statistics, loss]| {
            Host.cross_entropy_loss(targets, statistics, loss);
        });
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
        self.ask([targets, statistics], [logits], move |[targets, statistics], [logits]| {
            Host.cross_entropy_backward(first_token, logits, targets, statistics, seed, to);
        });
    }

    fn count_targets(&self, targets: View<'_>, loss: ViewMut<'_>) {
        self.ask([targets], [loss], |[targets], [loss]| Host.count_targets(targets, loss));
    }

    fn add(&self, term: View<'_>, sum: ViewMut<'_>) {
        self.ask([term], [sum], |[term], [sum]| Host.add(term, sum));
    }

    fn sum_in_order(&self, before: &[View<'_>], own: ViewMut<'_>, after: &[View<'_>]) {
        let num_before = before.len();
        self.ask_many(&[before, after].concat(), vec![own], move |terms, writes| {
            let (before, after) = terms.split_at(num_before);
            writes.into_iter().for_each(|own| Host.sum_in_order(before, own, after));
        });
    }

    fn add_squares(&self, x: View<'_>, squares: ViewMut<'_>) {
        self.ask([x], [squares], |[x], [squares]| Host.add_squares(x, squares));
    }

    fn adamw(
        &self,
        step: AdamWStep,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        moments: [ViewMut<'_>; 2],
    ) {
        let [first, second] = moments;
        self.ask(
            [gradients],
            [parameters, first, second],
            move |[gradients], [parameters, first, second]| {
                Host.adamw(step, parameters, gradients, [first, second]);
            },
        );
    }

    fn sgd(&self, step: SgdStep, parameters: ViewMut<'_>, gradients: View<'_>) {
        self.ask([gradients], [parameters], move |[gradients], [parameters]| {
            Host.sgd(step, parameters, gradients);
        });
    }

    fn sgd_with_momentum(
        &self,
        step: SgdStep,
        momentum: f64,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        state: ViewMut<'_>,
    ) {
        self.ask([gradients], [parameters, state], move |[gradients], [parameters, state]| {
            Host.sgd_with_momentum(step, momentum, parameters, gradients, state);
        });
    }

    fn sleep(&self, duration: Duration) {
        self.ask([], [], move |[], []| Host.sleep(duration));
    }

    fn on_host(&self, reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: HostKernel) {
        self.ask_many(reads, writes, move |reads, writes| Host.on_host(reads, writes, kernel));
    }
}

/// A view of what a kernel may be given; an empty one, of another that it reads, where it is given none.
fn or_none<'a>(given: Option<View<'a>>, other: View<'a>) -> View<'a> {
    given.unwrap_or(other.range(0..0))
}

/// The view once more, where it was given.
fn if_any(view: View<'_>) -> Option<View<'_>> {
    (!view.is_empty()).then_some(view)
}
