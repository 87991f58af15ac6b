//! Losses of the user's own run through plan and engine like the built-in one, with values of the source's beside targets or without.

use std::sync::Arc;

use pipezero_config::{NoDecay, OptimizerConfig, Run, SchedulerConfig};
use pipezero_models::kernels::cross_entropy::NUM_STATISTICS;
use pipezero_models::layer::{IGNORED_TARGET, LossSum};
use pipezero_models::queue::Deferred;
use pipezero_models::{CrossEntropy, Loss, ModelConfig, Queue, View, ViewMut, gpt2, llama};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchSource, TokenBatch};
use pipezero_run::engine::{Engine, EngineError};
use tests::{
    Case, Lengths, Mask, RandomBatches, Trained, assert_as_planned, assert_bit_identical, grids, small_run,
    train, train_plan, train_plan_on, train_with, two_steps,
};

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
        inputs: Option<View<'_>>,
        per_row: ViewMut<'_>,
        mut loss: ViewMut<'_>,
    ) {
        CrossEntropy.forward(queue, logits, targets, inputs, per_row, loss.reborrow());
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
        inputs: Option<View<'_>>,
        per_row: View<'_>,
        seed: f32,
    ) {
        CrossEntropy.backward(queue, logits, targets, inputs, per_row, self.gradient * seed);
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
    let hints = plan
        .diagnostics()
        .into_iter()
        .filter(|diagnostic| diagnostic.text.contains("reads whole rows of logits"));
    let hint = hints.map(|diagnostic| diagnostic.text).collect::<String>();
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
    let Err(EngineError::NotFinite { step: 1, what, .. }) = engine.train_batch() else {
        panic!("it is finite")
    };
    assert!(
        what.starts_with(&format!("the gradient of unit u{last} (")) && what.contains("lm_head"),
        "{what}"
    );
    let end = ") on rank 2 is not finite: it is the first on the way back, and the whole forward is finite";
    assert!(what.ends_with(end), "{what}");
}

/// Cross-entropy times a weight of each token that the source gives; a token of weight 0 is no target.
#[derive(Debug)]
struct Weighted;

impl Loss for Weighted {
    fn num_kept_per_row(&self) -> usize {
        CrossEntropy.num_kept_per_row()
    }

    fn num_inputs_per_row(&self) -> usize {
        1
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
        let weights = inputs.expect("a micro-batch without weights is an error");
        queue.on_host(
            &[targets, per_row.view(), weights],
            vec![loss],
            Box::new(|reads, writes| {
                let [targets, kept, weights] = reads else { unreachable!() };
                let rows = kept.slice::<f32>().chunks_exact(NUM_STATISTICS).zip(weights.slice::<f32>());
                let mut sum = LossSum::default();
                for (&target, (kept, &weight)) in targets.slice::<u32>().iter().zip(rows) {
                    if target != IGNORED_TARGET && weight != 0.0 {
                        sum.sum += f64::from(weight) * (f64::from(kept[0]) - f64::from(kept[2]));
                        sum.num_targets += 1;
                    }
                }
                for loss in writes.into_iter().filter(|loss| !loss.is_empty()) {
                    loss.slice().copy_from_slice(&sum.to_words());
                }
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
        let weights = inputs.expect("as in the forward");
        queue.on_host(
            &[weights],
            vec![logits],
            Box::new(|reads, writes| {
                let weights = reads[0].slice::<f32>();
                for logits in writes {
                    let logits = logits.slice::<f32>();
                    let width = logits.len() / weights.len();
                    for (row, &weight) in logits.chunks_exact_mut(width).zip(weights) {
                        row.iter_mut().for_each(|x| *x = if weight == 0.0 { 0.0 } else { weight * *x });
                    }
                }
            }),
        );
    }
}

/// Batches with a weight of each token.
struct WithWeights<W> {
    batches: RandomBatches,
    weight: W,
}

impl<W: Fn(u32) -> f32 + Send + Sync> BatchSource for WithWeights<W> {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        self.batches.micro_batch(step, data_rank, micro_batch, batch)?;
        batch.loss_inputs.extend(batch.inputs.iter().map(|&token| (self.weight)(token)));
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        self.batches.seq_length(step, data_rank, micro_batch)
    }
}

/// The plan of a run whose tokens have weights.
fn weighted_plan(run: Run) -> Plan {
    let model = match &run.model {
        ModelConfig::Llama(llama) => llama::build_with_loss(llama, Arc::new(Weighted)),
        model => gpt2::build_with_loss(model.gpt().expect("it has a vocabulary"), Arc::new(Weighted)),
    };
    Plan::with_model(run, model.expect("valid sizes")).expect("a valid run")
}

fn weighted(
    plan: &Plan,
    lengths: Lengths,
    weight: impl Fn(u32) -> f32 + Send + Sync + 'static,
) -> Arc<dyn BatchSource> {
    let batches = RandomBatches::for_plan(plan, Mask::Uneven).with_lengths(lengths);
    Arc::new(WithWeights { batches, weight })
}

fn some_weight(token: u32) -> f32 {
    [0.0, 0.25, 1.0, 3.0][token as usize % 4]
}

#[test]
fn weights_of_one_are_cross_entropy_and_a_weight_of_zero_is_an_ignored_target() {
    let run = two_steps(Case { pipeline: 2, data: 2, ..Case::ONE_RANK });
    let plan = weighted_plan(run.clone());
    let ones = train_with(plan.clone(), weighted(&plan, Lengths::Longest, |_| 1.0), |_| {});
    let plain = train(run.clone(), Mask::Uneven);
    assert_bit_identical(&ones, &plain, "weights of one");
    let zeros = weighted(&plan, Lengths::Longest, |token| if token % 3 == 0 { 0.0 } else { 1.0 });
    let zeros = train_with(plan.clone(), zeros, |_| {});
    let ignoring = RandomBatches::for_plan(&plan, Mask::Uneven).edited(|_, _, batch| {
        for (input, target) in batch.inputs.iter().zip(&mut batch.targets) {
            *target = if input % 3 == 0 { IGNORED_TARGET } else { *target };
        }
        Ok(())
    });
    let plan = Plan::new(run).expect("a valid run");
    assert_bit_identical(&zeros, &train_with(plan, Arc::new(ignoring), |_| {}), "weights of zero");
    assert_ne!(zeros.losses, plain.losses);
}

/// What the head's ranks hold of the values is planned; it is the only difference to a loss without any.
#[test]
fn values_for_a_loss_give_the_same_bits_on_every_grid_and_are_held_as_planned() {
    for (number, case) in grids().into_iter().enumerate() {
        // No rank of four has its layers in one unit.
        let case = Case { num_layers: 8, ..case };
        let lengths = [Lengths::Longest, Lengths::Drawn][number % 2];
        let of = |case: &Case| -> (Trained, Plan) {
            let plan = weighted_plan(two_steps(case.clone()));
            let source = weighted(&plan, lengths, some_weight);
            (train_with(plan.clone(), source, |_| {}), plan)
        };
        let name = format!("{lengths:?}, {case:?}");
        let ((found, plan), (reference, _)) = (of(&case), of(&case.clone().reference()));
        assert_bit_identical(&found, &reference, &name);
        let deferred = Arc::new(Deferred::new(number as u64));
        let deferred = train_plan_on(&[deferred], plan.clone(), weighted(&plan, lengths, some_weight));
        assert_bit_identical(
            &deferred.expect("it trains as the host does"),
            &found,
            &format!("deferred, {name}"),
        );
        let planned = plan.forecast();
        if lengths == Lengths::Longest {
            assert_as_planned(&found.last.measured(), &planned, &name);
        }
        let run = plan.run().clone();
        let model = match &run.model {
            ModelConfig::Llama(llama) => llama::build_with_loss(llama, Arc::new(CrossEntropy)),
            model => gpt2::build_with_loss(model.gpt().unwrap(), Arc::new(CrossEntropy)),
        };
        let without = Plan::with_model(run, model.unwrap()).unwrap().forecast();
        let micro_batch = 4 * plan.micro_batch_shape().num_tokens() as u64;
        let num_micro_batches = plan.run().batch.num_micro_batches as u64;
        for (with, without) in planned.iter().zip(without) {
            let has_head = with.layers.iter().any(|layer| layer == "lm_head");
            let added = if has_head { (num_micro_batches + 1) * micro_batch } else { 0 };
            assert_eq!(
                with.memory.activations - without.memory.activations,
                added,
                "rank {} of {name}",
                with.rank
            );
        }
    }
}

#[test]
fn a_source_that_gives_other_than_the_loss_reads_is_told_so() {
    let plan = weighted_plan(two_steps(Case { pipeline: 2, ..Case::ONE_RANK }));
    let error_of = |num_values: usize| {
        let batches = RandomBatches::for_plan(&plan, Mask::None).edited(move |_, _, batch| {
            batch.loss_inputs.resize(num_values, 1.0);
            Ok(())
        });
        let mut engine = Engine::new(plan.clone(), Arc::new(batches)).expect("ranks start");
        engine.train_batch().expect_err("values are missing").to_string()
    };
    for (num_values, said) in [(0, "gave 0 values"), (5, "gave 5 values"), (13, "gave 13 values")] {
        let error = error_of(num_values);
        assert!(error.contains(said), "{error}");
        assert!(
            error.contains("of a micro-batch of 12 tokens, and the loss reads 1 of each: append 12 to"),
            "{error}"
        );
    }
}
