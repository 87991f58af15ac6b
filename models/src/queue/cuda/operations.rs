//! What is asked of a queue, as launches of kernels, products and copies. The kernels' sources say what their arguments are.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::arguments::{Argument, DropoutMasks, Grid, SumTerms};
use super::memory::{Allocation, num_bytes};
use super::products::{Epilogue, Operands, Product};
use super::queue::{CudaQueue, launch};
use crate::buffer::Buffer;
use crate::element::ElementType::{self, F32};
use crate::error::ModelError;
use crate::kernels::adamw::{AdamWNumbers, AdamWStep};
use crate::kernels::attention::AttentionShape;
use crate::kernels::cross_entropy::BLOCK_TOKENS;
use crate::kernels::dropout::Masks;
use crate::kernels::linear::LinearShape;
use crate::kernels::matmul::WriteMode;
use crate::kernels::norm::Norm;
use crate::kernels::sgd::SgdStep;
use crate::memory::{View, ViewMut};
use crate::queue::{
    Affine, Attended, AttentionMask, Event, HeadWeights, HostKernel, Mark, NormGradient, Onto, Positions,
    Queue, Rotation, Word,
};

impl Queue for CudaQueue {
    fn zeros(&self, len: usize, element: ElementType) -> Result<Buffer, ModelError> {
        let num_bytes = num_bytes(len, element)?;
        self.device.check()?;
        match Allocation::zeros(&self.device, num_bytes) {
            Ok(memory) => Ok(Buffer::on_device(Box::new(memory), len, element)),
            Err(error) => Err(self.device.not_allocated(num_bytes, error)),
        }
    }

    fn record(&self) -> Event {
        self.point()
    }

    fn wait(&self, event: &Event, _: &'static str) {
        self.wait_for(event);
    }

    fn has_reached(&self, event: &Event) -> Result<bool, ModelError> {
        self.has_come_to(event)
    }

    fn mark(&self) -> Mark {
        self.timed_point()
    }

    fn time_ns(&self, mark: Mark) -> u64 {
        self.time_of(mark)
    }

    fn forget_marks(&self) {
        self.forget_times();
    }

    fn word(&self) -> Word {
        self.new_word()
    }

    fn set_word(&self, word: &Arc<Word>, value: u64) {
        self.store_word(word, value);
    }

    fn discard(&self, _: ViewMut<'_>) {}

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) {
        self.copy_elements(from, &to);
    }

    fn clear(&self, x: ViewMut<'_>) {
        self.clear_elements(&x);
    }

    fn upload(&self, words: &[u32], to: ViewMut<'_>) {
        self.upload_elements(words, &to);
    }

    fn download(&self, from: View<'_>, words: &mut [u32]) -> Result<(), ModelError> {
        self.download_elements(from, words)
    }

    fn upload_floats(&self, values: &[f32], to: ViewMut<'_>) {
        self.upload_elements(values, &to);
    }

    fn download_floats(&self, from: View<'_>, values: &mut [f32]) -> Result<(), ModelError> {
        self.download_elements(from, values)
    }

    fn round(&self, x: ViewMut<'_>, to: ElementType) {
        let grid = Grid::packs(x.len(), to);
        launch!(self, to, "round_to_element", grid, self.write(&x), x.len() as u64);
    }

    fn narrow_rows(&self, x: ViewMut<'_>, width: usize, to: ElementType) {
        let grid = Grid::blocks(rows_of(x.len(), width));
        launch!(self, to, "narrow_rows", grid, self.write(&x), width as u32);
    }

    fn linear(&self, shape: LinearShape, x: View<'_>, weight: View<'_>, onto: Onto<'_>, y: ViewMut<'_>) {
        let types @ [factor, out] = [x.element_type(), y.element_type()];
        let (bias, onto) = match onto {
            Onto::Nothing => (None, None),
            Onto::Bias(bias) => (Some(bias), None),
            Onto::Residual(residual) => (None, Some(residual)),
            Onto::BiasAndResidual { bias, residual } => (Some(bias), Some(residual)),
        };
        // The library takes a bias of the output's type.
        let bias = bias.map(|bias| self.read_of(out, bias));
        let onto = onto.map(|residual| self.read_of(out, residual));
        let (left, right, out) =
            (self.read_of(factor, weight), self.read_of(factor, x), self.write_of(out, &y));
        let epilogue = if bias.is_some() { Epilogue::Bias } else { Epilogue::Nothing };
        let product = Product::forward(shape, epilogue, types);
        self.multiply(product, Operands { left, right, onto, bias, gelu_input: None, out });
    }

    fn linear_gelu(
        &self,
        shape: LinearShape,
        x: View<'_>,
        affine: Affine<'_>,
        before_gelu: ViewMut<'_>,
        y: ViewMut<'_>,
    ) {
        self.multiply_then_gelu(shape, x, affine, before_gelu, y);
    }

    fn linear_gelu_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        x: ViewMut<'_>,
        dx: ViewMut<'_>,
    ) {
        self.multiply_then_gelu_backward(shape, dy, weight, x, dx);
    }

    fn linear_backward_input(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let stride = rows_of(dy.len(), shape.num_rows);
        let product = |types| Product::backward_input(shape, stride, Epilogue::Nothing, types);
        self.multiply_into(product, [weight, dy], &dx, mode);
    }

    fn linear_backward_weight(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        x: View<'_>,
        dweight: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let stride = rows_of(dy.len(), shape.num_rows);
        let product = |types| Product::backward_weight(shape, stride, types);
        self.multiply_into(product, [x, dy], &dweight, mode);
    }

    fn bias_backward(&self, dy: View<'_>, dbias: ViewMut<'_>, mode: WriteMode) {
        let width = dbias.len();
        let num_rows = rows_of(dy.len(), width) as u64;
        let of = dy.element_type();
        let grid = Grid::columns(width, of);
        let (dy, dbias) = (self.read_of(of, dy), self.write(&dbias));
        launch!(self, of, "bias_backward", grid, dy, dbias, num_rows, width as u32, adds(mode));
    }

    fn gelu(&self, x: View<'_>, y: ViewMut<'_>) {
        let (of, num_elements) = (x.element_type(), x.len() as u64);
        let grid = Grid::packs(x.len(), of);
        launch!(self, of, "gelu", grid, self.read_of(of, x), self.write_of(of, &y), num_elements);
    }

    fn gelu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>) {
        let (of, num_elements) = (x.element_type(), x.len() as u64);
        let grid = Grid::packs(x.len(), of);
        let (x, dy) = (self.write_of(of, &x), self.write_of(of, &dy));
        launch!(self, of, "gelu_backward", grid, x, dy, num_elements);
    }

    fn norm(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, y: ViewMut<'_>, statistics: ViewMut<'_>) {
        self.launch_norm(norm, x, affine, y, statistics);
    }

    fn norm_statistics(&self, norm: Norm, x: View<'_>, width: usize, statistics: ViewMut<'_>) {
        self.launch_norm_statistics(norm, x, width, statistics);
    }

    fn norm_again(&self, norm: Norm, x: View<'_>, affine: Affine<'_>, statistics: View<'_>, y: ViewMut<'_>) {
        self.launch_norm_again(norm, x, affine, statistics, y);
    }

    fn norm_backward_input(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.launch_norm_backward_input(norm, of, weight, dx, mode);
    }

    fn norm_backward_weight(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        dweight: ViewMut<'_>,
        dbias: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.launch_norm_backward_weight(norm, of, dweight, dbias, mode);
    }

    fn swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize) {
        self.launch_swiglu(x, y, width);
    }

    fn swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize) {
        self.launch_swiglu_backward(x, dy, width);
    }

    fn rope(&self, shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>) {
        self.launch_rope(shape, rotation, qkv);
    }

    fn head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    ) {
        self.launch_head_norm(shape, epsilon, x, weights, y);
    }

    fn head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    ) {
        self.launch_head_norm_backward_input(shape, epsilon, x, weights, dy);
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
        self.launch_head_norm_backward_weight(shape, epsilon, x, dy, dweights, mode);
    }

    fn attention(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: View<'_>,
        out: ViewMut<'_>,
        log_sum_exp: ViewMut<'_>,
        _: ViewMut<'_>,
    ) {
        self.attend(shape, mask, qkv, out, log_sum_exp);
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
        self.attend_backward(shape, mask, qkv, attended, dout, workspace);
    }

    fn dropout(&self, masks: Masks, x: ViewMut<'_>, width: usize) {
        let (of, grid) = (x.element_type(), Grid::blocks(rows_of(x.len(), width)));
        launch!(self, of, "dropout", grid, DropoutMasks::of(masks), self.write_of(of, &x), width as u32);
    }

    fn dropout_add_residual(&self, masks: Masks, x: View<'_>, y: ViewMut<'_>, width: usize) {
        let (of, grid, masks) =
            (x.element_type(), Grid::blocks(rows_of(x.len(), width)), DropoutMasks::of(masks));
        let (x, y) = (self.read_of(of, x), self.write_of(of, &y));
        launch!(self, of, "dropout_add_residual", grid, masks, x, y, width as u32);
    }

    fn embedding(&self, tokens: View<'_>, first_token: u32, token_table: View<'_>, y: ViewMut<'_>) {
        self.launch_embedding(tokens, first_token, token_table, y);
    }

    fn embedding_backward(
        &self,
        tokens: View<'_>,
        first_token: u32,
        dy: View<'_>,
        dtoken_table: ViewMut<'_>,
        mode: WriteMode,
    ) {
        self.launch_embedding_backward(tokens, first_token, dy, dtoken_table, mode);
    }

    fn add_positions(&self, positions: Positions<'_>, table: View<'_>, y: ViewMut<'_>, width: usize) {
        self.launch_add_positions(positions, table, y, width);
    }

    fn positions_backward(
        &self,
        positions: Positions<'_>,
        dy: View<'_>,
        dposition_table: ViewMut<'_>,
        width: usize,
        mode: WriteMode,
    ) {
        self.launch_positions_backward(positions, dy, dposition_table, width, mode);
    }

    fn cross_entropy(&self, first_token: u32, logits: View<'_>, targets: View<'_>, statistics: ViewMut<'_>) {
        let num_columns = rows_of(logits.len(), targets.len());
        let grid = Grid::blocks(targets.len()).of_warps(num_columns.div_ceil(BLOCK_TOKENS));
        let num_columns = num_columns as u32;
        let (logits, targets) = (self.read(logits), self.read_words(targets));
        let statistics = self.write(&statistics);
        launch!(self, F32, "cross_entropy", grid, logits, targets, statistics, first_token, num_columns);
    }

    fn cross_entropy_loss(&self, targets: View<'_>, statistics: ViewMut<'_>, loss: ViewMut<'_>) {
        let num_rows = targets.len();
        let (targets, statistics) = (self.read_words(targets), self.write(&statistics));
        launch!(self, F32, "cross_entropy_log_sums", Grid::elements(num_rows), statistics, num_rows as u64);
        if !loss.is_empty() {
            let (grid, loss) = (Grid::blocks(1), self.write_words(&loss));
            launch!(self, F32, "cross_entropy_loss", grid, targets, statistics, loss, num_rows as u64);
        }
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
        let (grid, num_columns) = (Grid::blocks(targets.len()), rows_of(logits.len(), targets.len()) as u32);
        let (logits, targets) = (self.write(&logits), self.read_words(targets));
        let statistics = self.read(statistics);
        let kernel = "cross_entropy_backward";
        launch!(self, to, kernel, grid, logits, targets, statistics, first_token, num_columns, seed);
    }

    fn count_targets(&self, targets: View<'_>, loss: ViewMut<'_>) {
        if !loss.is_empty() {
            let (grid, num_rows) = (Grid::blocks(1), targets.len() as u64);
            let (targets, loss) = (self.read_words(targets), self.write_words(&loss));
            launch!(self, F32, "count_targets", grid, targets, loss, num_rows);
        }
    }

    fn add(&self, term: View<'_>, sum: ViewMut<'_>) {
        let grid = Grid::packs(sum.len(), F32);
        launch!(self, F32, "add", grid, self.read(term), self.write(&sum), sum.len() as u64);
    }

    fn sum_in_order(&self, before: &[View<'_>], own: ViewMut<'_>, after: &[View<'_>]) {
        let address = self.write(&own);
        let before = before.iter().map(|&term| self.read(term));
        let after = after.iter().map(|&term| self.read(term));
        let terms: Vec<u64> = before.chain([address]).chain(after).collect();
        let grid = Grid::packs(own.len(), F32);
        launch!(self, F32, "sum_in_order", grid, SumTerms::new(&terms), address, own.len() as u64);
    }

    fn add_squares(&self, x: View<'_>, squares: ViewMut<'_>) {
        let grid = Grid::blocks(x.len().div_ceil(NUM_SQUARES_PER_BLOCK));
        launch!(self, F32, "add_squares", grid, self.read(x), self.write_words(&squares), x.len() as u64);
    }

    fn adamw(
        &self,
        step: AdamWStep,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        moments: [ViewMut<'_>; 2],
    ) {
        let (grid, num_elements) = (Grid::packs(parameters.len(), F32), parameters.len() as u64);
        let [first, second] = moments.map(|moment| self.write(&moment));
        let (parameters, gradients) = (self.write(&parameters), self.read(gradients));
        let numbers = AdamWNumbers::of(step);
        launch!(self, F32, "adamw", grid, numbers, parameters, gradients, first, second, num_elements);
    }

    fn sgd(&self, step: SgdStep, parameters: ViewMut<'_>, gradients: View<'_>) {
        let (grid, num_elements) = (Grid::packs(parameters.len(), F32), parameters.len() as u64);
        let (lr, decay) = (step.lr as f32, step.weight_decay as f32);
        let (parameters, gradients) = (self.write(&parameters), self.read(gradients));
        launch!(self, F32, "sgd", grid, step.gradient_scale, lr, decay, parameters, gradients, num_elements);
    }

    fn sgd_with_momentum(
        &self,
        step: SgdStep,
        momentum: f64,
        parameters: ViewMut<'_>,
        gradients: View<'_>,
        state: ViewMut<'_>,
    ) {
        let (grid, num_elements) = (Grid::packs(parameters.len(), F32), parameters.len() as u64);
        let (lr, decay, momentum) = (step.lr as f32, step.weight_decay as f32, momentum as f32);
        let (scale, state) = (step.gradient_scale, self.write(&state));
        let (parameters, gradients) = (self.write(&parameters), self.read(gradients));
        let kernel = "sgd_with_momentum";
        launch!(
            self,
            F32,
            kernel,
            grid,
            scale,
            lr,
            decay,
            momentum,
            parameters,
            gradients,
            state,
            num_elements
        );
    }

    fn sleep(&self, duration: Duration) {
        self.ask("cuStreamSynchronize", |stream| stream.synchronize());
        thread::sleep(duration);
    }

    fn on_host(&self, reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: HostKernel) {
        self.run_on_host(reads, &writes, kernel);
    }
}

/// Elements of a block of `add_squares`, as its source has it.
pub(super) const NUM_SQUARES_PER_BLOCK: usize = 1 << 15;

/// How many rows of `width` so many elements are; none where rows have no elements.
pub(super) fn rows_of(num_elements: usize, width: usize) -> usize {
    num_elements.checked_div(width).unwrap_or(0)
}

/// What a kernel's source has for a mode.
pub(super) fn adds(mode: WriteMode) -> i32 {
    i32::from(mode == WriteMode::Add)
}
