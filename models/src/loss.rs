//! What a model is judged by: a trait, so that users can bring their own.

use std::fmt::Debug;

use crate::kernels::cross_entropy;
use crate::micro_batch::LossSum;

/// A loss over rows of logits. N rows, V columns; a row whose target is [`crate::layer::IGNORED_TARGET`] counts in
/// nothing. Its results must depend on its arguments alone, not on the number of threads.
pub trait Loss: Debug + Send + Sync {
    /// The summed loss of `logits: [N, V]` against `targets: [N]` and the number of targets that count. What the
    /// backward needs beside the logits is kept in `per_row: [N]`.
    fn forward(&self, logits: &[f32], targets: &[u32], per_row: &mut [f32]) -> LossSum;

    /// The logits become their gradient, times `seed`: zero where the target is ignored.
    fn backward(&self, logits: &mut [f32], targets: &[u32], per_row: &[f32], seed: f32);
}

/// Cross-entropy of the softmax, in nats.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossEntropy;

impl Loss for CrossEntropy {
    fn forward(&self, logits: &[f32], targets: &[u32], per_row: &mut [f32]) -> LossSum {
        cross_entropy::forward(logits, targets, per_row)
    }

    fn backward(&self, logits: &mut [f32], targets: &[u32], per_row: &[f32], seed: f32) {
        cross_entropy::backward(logits, targets, per_row, seed);
    }
}
