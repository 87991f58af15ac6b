//! The losses of the actor and the critic. Both read more of each token than its target.

use pipezero::models::kernels::cross_entropy::NUM_STATISTICS;
use pipezero::models::layer::{IGNORED_TARGET, LossSum};
use pipezero::models::{CrossEntropy, Loss, Queue, View, ViewMut};

/// By how much a probability may change before its token stops counting.
const CLIP: f32 = 0.2;

/// PPO's clipped objective (Schulman et al., arXiv:1707.06347, section 3): of each token its old log-probability and its advantage.
#[derive(Debug)]
pub(super) struct Clipped;

/// The loss of a row, and its derivative by the row's cross-entropy.
pub(super) fn clipped(cross_entropy: f32, old: f32, advantage: f32) -> (f32, f32) {
    let ratio = (-cross_entropy - old).exp();
    let (free, bound) = (ratio * advantage, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantage);
    if free <= bound { (-free, free) } else { (-bound, 0.0) }
}

/// Adds up the losses of the rows whose target counts, and writes the sum where it is asked for.
fn write_sum(targets: View<'_>, of_rows: impl Iterator<Item = f64>, writes: Vec<ViewMut<'_>>) {
    let mut sum = LossSum::default();
    for (&target, of_row) in targets.slice::<u32>().iter().zip(of_rows) {
        if target != IGNORED_TARGET {
            sum.sum += of_row;
            sum.num_targets += 1;
        }
    }
    for loss in writes.into_iter().filter(|loss| !loss.is_empty()) {
        loss.slice().copy_from_slice(&sum.to_words());
    }
}

impl Loss for Clipped {
    fn num_kept_per_row(&self) -> usize {
        NUM_STATISTICS
    }

    fn num_inputs_per_row(&self) -> usize {
        2
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        mut per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        CrossEntropy.forward(queue, logits, targets, None, per_row.reborrow(), loss.reborrow());
        let inputs = inputs.expect("a batch without them is an error");
        queue.on_host(
            &[targets, per_row.view(), inputs],
            vec![loss],
            Box::new(|reads, writes| {
                let [targets, kept, inputs] = reads else { unreachable!() };
                let kept = kept.slice::<f32>().chunks_exact(NUM_STATISTICS);
                let rows = kept.zip(inputs.slice::<f32>().chunks_exact(2));
                let of_rows =
                    rows.map(|(kept, given)| clipped(kept[0] - kept[2], given[0], given[1]).0.into());
                write_sum(*targets, of_rows, writes);
            }),
        );
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        mut logits: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        CrossEntropy.backward(queue, logits.reborrow(), targets, None, per_row, seed);
        queue.on_host(
            &[per_row, inputs.expect("as in the forward")],
            vec![logits],
            Box::new(|reads, writes| {
                let (kept, inputs) = (reads[0].slice::<f32>(), reads[1].slice::<f32>());
                let rows = kept.chunks_exact(NUM_STATISTICS).zip(inputs.chunks_exact(2));
                for logits in writes {
                    let logits = logits.slice::<f32>();
                    let width = logits.len() / (inputs.len() / 2);
                    for (row, (kept, given)) in logits.chunks_exact_mut(width).zip(rows.clone()) {
                        let (_, factor) = clipped(kept[0] - kept[2], given[0], given[1]);
                        row.iter_mut().for_each(|x| *x *= factor);
                    }
                }
            }),
        );
    }
}

/// Half the squared distance of a value from what the source says of it; without a word of the source, a count.
#[derive(Debug)]
pub(super) struct Squared;

impl Loss for Squared {
    fn num_inputs_per_row(&self) -> usize {
        1
    }

    fn needs_inputs(&self) -> bool {
        false
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        values: View<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        _: ViewMut<'_>,
        loss: ViewMut<'_>,
    ) {
        let Some(wanted) = inputs else {
            if !loss.is_empty() {
                queue.count_targets(targets, loss);
            }
            return;
        };
        queue.on_host(
            &[values, targets, wanted],
            vec![loss],
            Box::new(|reads, writes| {
                let (values, wanted) = (reads[0].slice::<f32>(), reads[2].slice::<f32>());
                let of_rows =
                    values.iter().zip(wanted).map(|(value, wanted)| 0.5 * f64::from(value - wanted).powi(2));
                write_sum(reads[1], of_rows, writes);
            }),
        );
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        values: ViewMut<'_>,
        targets: View<'_>,
        inputs: Option<View<'_>>,
        _: View<'_>,
        seed: f32,
    ) {
        queue.on_host(
            &[targets, inputs.expect("a step has them")],
            vec![values],
            Box::new(move |reads, writes| {
                let (targets, wanted) = (reads[0].slice::<u32>(), reads[1].slice::<f32>());
                for values in writes {
                    for (value, (&target, wanted)) in
                        values.slice::<f32>().iter_mut().zip(targets.iter().zip(wanted))
                    {
                        *value = if target == IGNORED_TARGET { 0.0 } else { seed * (*value - wanted) };
                    }
                }
            }),
        );
    }
}
