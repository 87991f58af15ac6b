//! What a model is judged by: a trait, so that users can bring their own.

use std::fmt::Debug;

use crate::element::ElementType;
use crate::kernels::cross_entropy::NUM_STATISTICS;
use crate::memory::{View, ViewMut};
use crate::queue::Queue;

/// A loss over rows of logits. N rows, V columns; a row whose target is [`crate::layer::IGNORED_TARGET`] counts in
/// nothing. Its results must depend on its arguments alone, not on the number of threads.
pub trait Loss: Debug + Send + Sync {
    /// Elements of f32 that the backward needs of each row, beside its logits.
    fn num_kept_per_row(&self) -> usize {
        1
    }

    /// K: values of f32 that it reads of each row beside the target, such as weights or the logits of another model. A source of data gives
    /// them, and only ranks that compute the loss hold them.
    fn num_inputs_per_row(&self) -> usize {
        0
    }

    /// Whether a micro-batch for which the source gives no such values is an error. A loss that says `false` must do without: its `inputs` are
    /// `None` then.
    fn needs_inputs(&self) -> bool {
        self.num_inputs_per_row() > 0
    }

    /// Names of the parts that it reports beside its value, such as the terms that it adds up, by which metrics know them: small letters, digits and
    /// `_`, none twice. They are the same however often they are asked for.
    fn part_names(&self) -> &[&'static str] {
        &[]
    }

    /// What it minimises, in a few words with its constants: a run that goes on with another loss than before is warned of it. Losses that do not say it are all
    /// the same here.
    fn description(&self) -> String {
        "a loss of its own".to_owned()
    }

    /// The summed loss of `logits: [N, V]` against `targets: [N]` of `u32` and the number of targets that count, as the words of a
    /// [`LossSum`](crate::layer::LossSum) in `loss`, and behind them those of one more for each of its parts; `loss` is empty where they are not
    /// asked for. A part without targets has no value in this micro-batch. What the backward needs beside the logits is kept in `per_row: [N, num_kept_per_row]`. The source's values are `inputs: [N, K]`, rows in the order of the logits; `None` where it
    /// gave none, or the loss reads none.
    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: ViewMut<'_>,
        loss: ViewMut<'_>,
    );

    /// The logits become their gradient, times `seed`: zero where the target is ignored. The inputs are those of the forward.
    fn backward(
        &self,
        queue: &dyn Queue,
        logits: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    );
}

/// Cross-entropy of the softmax, in nats.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossEntropy;

impl Loss for CrossEntropy {
    fn num_kept_per_row(&self) -> usize {
        NUM_STATISTICS
    }

    fn description(&self) -> String {
        "cross-entropy".to_owned()
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        _: Option<View<'_>>,
        per_row: ViewMut<'_>,
        loss: ViewMut<'_>,
    ) {
        let mut per_row = per_row;
        queue.cross_entropy(0, logits, targets, per_row.reborrow());
        queue.cross_entropy_loss(targets, per_row, loss);
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        logits: ViewMut<'_>,
        targets: View<'_>,
        _: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        queue.cross_entropy_backward(0, logits, targets, per_row, seed, ElementType::F32);
    }
}
