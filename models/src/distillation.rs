//! Knowledge distillation: a student learns from the logits of a teacher beside the targets.

use crate::kernels::cross_entropy::NUM_STATISTICS;
use crate::kernels::distillation::{self, NUM_KEPT, Seeds};
use crate::loss::{CrossEntropy, Loss};
use crate::memory::{View, ViewMut};
use crate::micro_batch::LossSum;
use crate::queue::Queue;

/// `(1 - alpha) * cross-entropy + alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T))` of each target that counts
/// (arXiv:1503.02531, section 2; the factor T^2 keeps the second term's gradient of the same size at every temperature).
///
/// What it reads of a row are the teacher's logits, so K is V. Where the source gives none, it is cross-entropy: an evaluation, in which no
/// teacher takes part. So it is where alpha is 0, to the bit.
///
/// Unless alpha is 0 it reports its two terms without their weights as [parts](Loss::part_names): `cross_entropy`, and `divergence`, which has no
/// value where there are no logits of a teacher.
///
/// The second term is computed on the host: a GPU copies the rows of a micro-batch there and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distillation {
    /// T, above 0: above 1 it makes both distributions softer.
    pub temperature: f64,
    /// What the divergence weighs, from 0 to 1.
    pub alpha: f64,
}

/// The loss of a vocabulary of this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistillationLoss {
    /// The weights of its terms.
    pub distillation: Distillation,
    /// V, of student and teacher alike.
    pub vocab_size: usize,
}

impl DistillationLoss {
    /// Names of the terms.
    const PARTS: [&'static str; 2] = ["cross_entropy", "divergence"];

    /// Whether it is any other loss than cross-entropy.
    fn has_divergence(&self) -> bool {
        self.distillation.alpha > 0.0
    }

    /// What the teacher says, where it counts.
    fn of_teacher<'a>(&self, inputs: Option<View<'a>>) -> Option<View<'a>> {
        inputs.filter(|_| self.has_divergence())
    }

    /// All of the loss is cross-entropy: without a teacher's logits the divergence is unknown.
    fn report_without_teacher(queue: &dyn Queue, sum: View<'_>, parts: ViewMut<'_>) {
        if !parts.is_empty() {
            let (cross_entropy, divergence) = parts.split_at(LossSum::NUM_WORDS);
            queue.copy(sum, cross_entropy);
            queue.clear(divergence);
        }
    }
}

/// The elements of what is kept of rows: the statistics of the cross-entropy, and what the divergence keeps.
fn num_statistics(targets: View<'_>) -> usize {
    NUM_STATISTICS * targets.len()
}

impl Loss for DistillationLoss {
    fn num_kept_per_row(&self) -> usize {
        NUM_STATISTICS + NUM_KEPT
    }

    fn num_inputs_per_row(&self) -> usize {
        self.vocab_size
    }

    fn needs_inputs(&self) -> bool {
        false
    }

    fn description(&self) -> String {
        let Distillation { temperature, alpha } = self.distillation;
        format!("distillation with temperature {temperature} and alpha {alpha}")
    }

    fn part_names(&self) -> &[&'static str] {
        if self.has_divergence() { &Self::PARTS } else { &[] }
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        let (statistics, kept) = per_row.split_at(num_statistics(targets));
        let num_words = loss.len().min(LossSum::NUM_WORDS);
        let (mut sum, parts) = loss.reborrow().split_at(num_words);
        CrossEntropy.forward(queue, logits, targets, None, statistics, sum.reborrow());
        let Some(teacher) = self.of_teacher(inputs) else {
            return Self::report_without_teacher(queue, sum.view(), parts);
        };
        let Distillation { temperature, alpha } = self.distillation;
        let kernel = distillation::forward_on_host(temperature, alpha);
        queue.on_host(&[logits, teacher, targets], vec![kept, loss], Box::new(kernel));
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        logits: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        let num_statistics = num_statistics(targets);
        let statistics = per_row.range(0..num_statistics);
        let Some(teacher) = self.of_teacher(inputs) else {
            return CrossEntropy.backward(queue, logits, targets, None, statistics, seed);
        };
        let Distillation { temperature, alpha } = self.distillation;
        let weighed = |weight: f64| (weight * f64::from(seed)) as f32;
        let seeds = Seeds { cross_entropy: weighed(1.0 - alpha), divergence: weighed(alpha * temperature) };
        let kept = per_row.range(num_statistics..per_row.len());
        let kernel = distillation::backward_on_host(temperature, seeds);
        queue.on_host(&[teacher, targets, statistics, kept], vec![logits], Box::new(kernel));
    }
}
