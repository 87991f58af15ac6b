//! Evaluating, sampling and saving: they leave the training as it is, give the same bits on every grid, and agree with
//! each other.

use std::sync::Arc;

use pipezero_config::{ResidencyConfig, Run, ZeroLevel};
use pipezero_run::data::{BatchSource, TokenBatch};
use pipezero_run::engine::{Engine, EngineError};
use tests::{
    Case, Mask, RandomBatches, assert_bit_identical, plan_and_batches, small_run, started, train, train_with,
    weights_of, zero,
};

/// Runs on grids whose programs and stores differ in kind; all train on the same 12 sequences in each step, the tied ones within
/// documents.
fn runs(tied: bool) -> Vec<(String, Run)> {
    use ResidencyConfig::{Strict, Units};
    use ZeroLevel::{Zero0, Zero1, Zero2, Zero3};
    let runs = [
        (1, 1, zero(Zero0, Strict, 0)),
        (1, 2, zero(Zero2, Strict, 0)),
        (2, 2, zero(Zero1, Strict, 0)),
        (2, 2, zero(Zero3, Units(2), 1)),
        (4, 1, zero(Zero0, Strict, 0)),
        (4, 2, zero(Zero3, Units(1), 0)),
        (2, 3, zero(Zero3, Strict, 1)),
    ];
    let run = |(pipeline, data, zero)| {
        let case = Case { pipeline, data, num_micro_batches: 6 / data, zero, tied, ..Case::ONE_RANK };
        let case = Case { document_attention: tied, ..case };
        (format!("{case:?}"), small_run(case))
    };
    runs.into_iter().map(run).collect()
}

#[test]
fn commands_between_steps_do_not_change_the_training() {
    for (case, run) in [false, true].into_iter().flat_map(runs) {
        let undisturbed = train(run.clone(), Mask::Uneven);
        let (plan, source) = plan_and_batches(run, Mask::Uneven);
        let validation = Arc::clone(&source);
        let mut batch = 0;
        let disturbed = train_with(plan, source, |engine| {
            batch += 1;
            engine.eval_batch(&validation, 100 + batch).expect("an evaluation");
            engine.logits(&[3, 1, 4]).expect("logits");
            weights_of(engine);
        });
        assert_bit_identical(&disturbed, &undisturbed, &case);
    }
}

/// A micro-batch's loss is one sum wherever it runs, and sums over micro-batches are exact.
#[test]
fn every_grid_evaluates_a_batch_to_the_same_bits() {
    for tied in [false, true] {
        let losses: Vec<_> = runs(tied).into_iter().map(|(case, run)| (case, initial_loss(run))).collect();
        let (reference, wanted) = &losses[0];
        for (case, loss) in &losses {
            assert_eq!(loss.to_bits(), wanted.to_bits(), "{case} against {reference}");
        }
    }
}

fn initial_loss(run: Run) -> f64 {
    let (plan, source) = plan_and_batches(run, Mask::Uneven);
    let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
    let report = engine.eval_batch(&source, 1).expect("an evaluation");
    report.loss.expect("some targets carry loss")
}

#[test]
fn every_grid_gives_the_same_logits_to_the_bit() {
    let prompt = [5, 16, 0, 11, 2, 7];
    for tied in [false, true] {
        let mut wanted = Vec::new();
        for (case, run) in runs(tied) {
            let mut engine = started(Engine::for_inference, run, Mask::None);
            let logits: Vec<Vec<u32>> = (1..=prompt.len())
                .map(|len| engine.logits(&prompt[..len]).expect("logits"))
                .map(|logits| logits.iter().map(|logit| logit.to_bits()).collect())
                .collect();
            if wanted.is_empty() {
                wanted = logits.clone();
            }
            assert_eq!(logits, wanted, "{case}");
        }
    }
}

/// The loss of a sequence is the mean over its positions of what the logits after each prefix give the next token.
#[test]
fn logits_and_loss_agree() {
    let case = Case { pipeline: 2, num_micro_batches: 1, ..Case::ONE_RANK };
    let mut run = small_run(case);
    (run.batch.micro_batch_size, run.batch.train_batch_size) = (1, 1);
    let (plan, source) = plan_and_batches(run, Mask::None);
    let mut tokens = TokenBatch::zeros(1, plan.micro_batch_shape().seq_length);
    source.micro_batch(1, 0, 0, &mut tokens).expect("random tokens");
    let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
    let loss = engine.eval_batch(&source, 1).expect("an evaluation").loss.expect("targets carry loss");
    let mut sum = 0.0;
    for (position, &target) in tokens.targets.iter().enumerate() {
        let logits = engine.logits(&tokens.inputs[..=position]).expect("logits");
        sum += cross_entropy(&logits, target);
    }
    let mean = sum / tokens.targets.len() as f64;
    // The loss takes exponentials in f32, 6e-8 each; this reference takes them in f64.
    assert!((loss - mean).abs() <= 1e-6 * mean, "{loss} against {mean}");
}

/// -ln softmax(logits)[target] in f64, nats.
fn cross_entropy(logits: &[f32], target: u32) -> f64 {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    sum.ln() - f64::from(logits[target as usize])
}

#[test]
fn a_prompt_is_one_token_at_least_and_one_sequence_at_most() {
    let mut engine = started(Engine::for_inference, small_run(Case::ONE_RANK), Mask::None);
    for num_tokens in [0, 7] {
        let error = engine.logits(&vec![1; num_tokens]).expect_err("a prompt that does not fit");
        assert!(
            matches!(error, EngineError::PromptLength { num_tokens: said, seq_length: 6 } if said == num_tokens),
            "{error}"
        );
    }
    assert!(engine.logits(&[1; 6]).is_ok(), "the engine goes on after a prompt that did not fit");
}

#[test]
fn a_batch_without_targets_has_no_loss() {
    let (plan, source) = plan_and_batches(small_run(Case { pipeline: 2, ..Case::ONE_RANK }), Mask::None);
    let masked: Arc<dyn BatchSource> = Arc::new(RandomBatches::for_plan(&plan, Mask::All));
    let mut engine = Engine::for_inference(plan, source).expect("ranks start");
    let report = engine.eval_batch(&masked, 1).expect("an evaluation");
    assert_eq!((report.loss, report.num_targets), (None, 0));
}
