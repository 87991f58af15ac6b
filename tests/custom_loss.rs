//! A loss of the user's own runs through plan and engine like the built-in one.

use std::sync::Arc;

use pipezero::Plan;
use pipezero::config::{NoDecay, OptimizerConfig, Run, SchedulerConfig};
use pipezero::models::layer::LossSum;
use pipezero::models::{CrossEntropy, Loss, Queue, View, ViewMut, gpt2};
use tests::{Case, Mask, small_run, train, train_plan};

/// Cross-entropy times two.
#[derive(Debug)]
struct Doubled;

impl Loss for Doubled {
    fn num_kept_per_row(&self) -> usize {
        CrossEntropy.num_kept_per_row()
    }

    fn forward(
        &self,
        queue: &dyn Queue,
        logits: View<'_>,
        targets: View<'_>,
        per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        CrossEntropy.forward(queue, logits, targets, per_row, loss.reborrow());
        queue.on_host(
            &[],
            vec![loss],
            Box::new(|_, writes| {
                for loss in writes.into_iter().filter(|loss| !loss.is_empty()) {
                    let words: &mut [u32; LossSum::NUM_WORDS] =
                        loss.slice().try_into().expect("a loss's words");
                    let loss = LossSum::from_words(*words);
                    *words = LossSum { sum: 2.0 * loss.sum, ..loss }.to_words();
                }
            }),
        );
    }

    fn backward(
        &self,
        queue: &dyn Queue,
        logits: ViewMut<'_>,
        targets: View<'_>,
        per_row: View<'_>,
        seed: f32,
    ) {
        CrossEntropy.backward(queue, logits, targets, per_row, 2.0 * seed);
    }
}

/// Doubling is exact in floating point, so twice the loss at half the rate trains to the same bits.
#[test]
fn twice_the_loss_at_half_the_rate_gives_the_same_weights() {
    let no_decay = NoDecay::OneDimensional;
    let sgd = |lr| OptimizerConfig::Sgd { lr, momentum: 0.0, weight_decay: 0.0, no_decay: no_decay.clone() };
    let run = |lr| Run {
        optimizer: sgd(lr),
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: 0.0,
        ..small_run(Case { pipeline: 2, ..Case::ONE_RANK })
    };
    let doubled = run(0.25);
    let model = gpt2::build_with_loss(doubled.model.gpt().unwrap(), Arc::new(Doubled));
    let plan = Plan::with_model(doubled.clone(), model.expect("valid sizes")).expect("a valid run");
    let hints =
        plan.remarks().into_iter().filter(|remark| remark.text.contains("reads whole rows of logits"));
    let hint = hints.map(|remark| remark.text).collect::<String>();
    assert!(hint.contains("they are kept, 976 B with what it saves"), "{hint}");
    let doubled = train_plan(plan, Mask::Uneven);
    let plain = train(run(0.5), Mask::Uneven);
    for (doubled, plain) in doubled.losses.iter().zip(&plain.losses) {
        assert_eq!(*doubled, 2.0 * plain);
    }
    assert_eq!(doubled.weights, plain.weights);
}
