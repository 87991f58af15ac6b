//! A loss of the user's own runs through plan and engine like the built-in one.

use std::sync::Arc;

use pipezero::Plan;
use pipezero::config::{NoDecay, OptimizerConfig, Run, SchedulerConfig};
use pipezero::models::layer::LossSum;
use pipezero::models::{CrossEntropy, Loss, Queue, View, ViewMut, gpt2};
use pipezero::run::engine::{Engine, EngineError};
use tests::{Case, Mask, RandomBatches, small_run, train, train_plan};

/// Cross-entropy times two, and its gradient times this.
#[derive(Debug)]
struct Doubled {
    gradient: f32,
}

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
        CrossEntropy.backward(queue, logits, targets, per_row, self.gradient * seed);
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
    let model = gpt2::build_with_loss(doubled.model.gpt().unwrap(), Arc::new(Doubled { gradient: 2.0 }));
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

/// The loss is finite, and the gradient is in no unit: of all of them that of the last is named, from which the others have theirs.
#[test]
fn a_gradient_that_is_not_finite_is_named_where_it_begins() {
    let run = small_run(Case { pipeline: 2, data: 2, ..Case::ONE_RANK });
    let loss = Doubled { gradient: f32::INFINITY };
    let model = gpt2::build_with_loss(run.model.gpt().unwrap(), Arc::new(loss)).expect("valid sizes");
    let plan = Plan::with_model(run, model).expect("a valid run");
    let last = plan.units().len() - 1;
    let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
    let mut engine = Engine::new(plan, source).expect("ranks start");
    let Err(EngineError::NotFinite { step: 1, what }) = engine.train_batch() else { panic!("it is finite") };
    assert!(
        what.starts_with(&format!("the gradient of unit u{last} (")) && what.contains("lm_head"),
        "{what}"
    );
    assert!(what.ends_with(") on rank 2"), "{what}");
}
