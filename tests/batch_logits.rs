//! All logits of a batch: the same bits on every grid, at the place of their sequence.

use std::sync::Arc;

use pipezero_config::{HeadLogits, VocabularyConfig};
use pipezero_models::queue::Deferred;
use pipezero_models::{CrossEntropy, gpt2};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchSource, TokenBatch};
use pipezero_run::engine::{BatchLogits, Engine, EngineError, EngineKind, InitialState};
use tests::{Case, Lengths, Mask, RandomBatches, Sample, grids, in_two_processes, small_run};

const BATCH: u64 = 3;

fn plan_of(case: &Case) -> Plan {
    // No rank of four has its layers in one unit.
    Plan::even_if_refused(small_run(Case { num_layers: 8, ..case.clone() })).expect("a valid run")
}

fn batches(plan: &Plan, lengths: Lengths) -> Arc<dyn BatchSource> {
    Arc::new(RandomBatches::for_plan(plan, Mask::Uneven).with_lengths(lengths))
}

fn logits_of<K: EngineKind>(engine: &mut Engine<K>, source: &Arc<dyn BatchSource>) -> Arc<BatchLogits> {
    let logits = Arc::new(BatchLogits::for_plan(engine.plan()).expect("there is memory"));
    engine.batch_logits(source, BATCH, &logits).expect("logits");
    logits
}

/// The bits of all rows that sequences have, which are the first of a micro-batch as the reference has them.
fn bits(
    logits: &BatchLogits,
    source: &Arc<dyn BatchSource>,
    num_sequences: usize,
    longest: usize,
) -> Vec<Vec<u32>> {
    let of = |sequence: usize| {
        let num_rows = source.seq_length(BATCH, 0, sequence / 2).unwrap_or(longest);
        logits.read(sequence, num_rows, |rows| rows.iter().map(|logit| logit.to_bits()).collect())
    };
    (0..num_sequences).map(of).collect()
}

/// The same model and batches on one rank.
fn on_one_rank(case: &Case) -> Plan {
    let num_micro_batches = case.num_micro_batches * case.data;
    let whole = Case { data: 1, num_micro_batches, ..case.clone().reference() };
    plan_of(&whole)
}

#[test]
fn sequences_have_the_same_logits_on_every_grid_whatever_computes_them() {
    for (number, case) in grids().into_iter().enumerate() {
        let plan = plan_of(&case);
        let whole = on_one_rank(&case);
        let (longest, num_sequences) =
            (plan.micro_batch_shape().seq_length, plan.run().batch.train_batch_size);
        // Lengths are drawn for the place of a micro-batch among those of its data rank.
        let lengths = if case.data == 1 { Lengths::Drawn } else { Lengths::Longest };
        let (source, whole_source) = (batches(&plan, lengths), batches(&whole, lengths));
        let mut reference = Engine::for_inference(whole, Arc::clone(&whole_source)).expect("ranks start");
        let wanted = bits(&logits_of(&mut reference, &whole_source), &whole_source, num_sequences, longest);
        let mut inference = Engine::for_inference(plan.clone(), Arc::clone(&source)).expect("ranks start");
        let found = logits_of(&mut inference, &source);
        assert_eq!(found.num_sequences(), num_sequences);
        assert_eq!(bits(&found, &whole_source, num_sequences, longest), wanted, "{lengths:?}, {case:?}");
        let num_ranks = plan.grid().world_size();
        let held: u64 = (0..num_ranks).map(|rank| inference.ledger(rank).total_peak_bytes()).sum();
        assert_eq!(held, plan.clone().without_training().needs().world_bytes, "bytes of {case:?}");
        let of_micro_batch = 4 * (plan.micro_batch_shape().num_tokens() * plan.vocab_size()) as u64;
        let has_logits =
            |rank: &usize| inference.ledger_between_steps(*rank).total_peak_bytes() >= of_micro_batch;
        let num_heads = (0..num_ranks).filter(has_logits).count();
        assert!(num_heads >= case.data, "ranks that hold logits in {case:?}");
        let deferred = Arc::new(Deferred::new(number as u64));
        let mut training = Engine::on_device(plan, Arc::clone(&source), deferred).expect("ranks start");
        let found = logits_of(&mut training, &source);
        assert_eq!(
            bits(&found, &whole_source, num_sequences, longest),
            wanted,
            "deferred, {lengths:?}, {case:?}"
        );
    }
}

/// What follows the last token of a sequence is what an engine says of a prompt of its tokens.
#[test]
fn the_last_row_of_a_sequence_is_what_follows_it_as_a_prompt() {
    let mut sample = Sample::one_in(2, "grid whose logits of a batch are compared with those of prompts");
    for case in grids().into_iter().filter(|_| sample.takes_next()) {
        let plan = plan_of(&case);
        let (source, shape) = (batches(&plan, Lengths::Longest), plan.micro_batch_shape());
        let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
        let logits = logits_of(&mut engine, &source);
        for micro_batch in 0..case.num_micro_batches {
            let mut batch = TokenBatch::zeros(shape.num_sequences, shape.seq_length);
            source.micro_batch(BATCH, 0, micro_batch, &mut batch).expect("tokens");
            let follows = engine.logits(&batch.inputs[..shape.seq_length]).expect("logits");
            let sequence = micro_batch * shape.num_sequences;
            let last =
                logits.read(sequence, shape.seq_length, |rows| rows[rows.len() - follows.len()..].to_vec());
            assert_eq!(last, follows, "sequence {sequence} of {case:?}");
        }
    }
}

/// A vocabulary of several blocks, whole and in slices, with logits that are kept and not, and of a head that a caller brings.
#[test]
fn blocks_and_slices_of_a_vocabulary_change_no_logit() {
    // Of the larger one blocks are larger.
    for vocab_size in [2100, 16_500] {
        assert_blocks_and_slices_change_no_logit(vocab_size);
    }
}

fn assert_blocks_and_slices_change_no_logit(vocab_size: usize) {
    let case = Case { vocab_size, pipeline: 2, data: 2, ..Case::ONE_RANK };
    let logits = |plan: Plan| {
        let source = batches(&plan, Lengths::Longest);
        let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
        let logits = logits_of(&mut engine, &source);
        (0..8).flat_map(|sequence| logits.read(sequence, 6, <[f32]>::to_vec)).collect::<Vec<f32>>()
    };
    let whole = logits(plan_of(&case));
    assert_eq!(whole.len(), 8 * 6 * vocab_size);
    for (num_slices, head_logits) in
        [(1, HeadLogits::Recompute), (2, HeadLogits::Keep), (3, HeadLogits::Recompute)]
    {
        let vocabulary = VocabularyConfig::new(num_slices, head_logits);
        let sliced = logits(plan_of(&Case { vocabulary, ..case.clone() }));
        assert!(sliced == whole, "{num_slices} slices of {vocab_size}, {head_logits:?}");
    }
    let run = small_run(Case { num_layers: 8, ..case });
    let model = gpt2::build_with_loss(run.model.gpt().unwrap(), Arc::new(CrossEntropy)).unwrap();
    let found = logits(Plan::with_model(run, model).unwrap());
    let largest = whole.iter().fold(0.0_f32, |max, logit| max.max(logit.abs()));
    for (found, wanted) in found.iter().zip(&whole) {
        // One product instead of one for each block.
        assert!((found - wanted).abs() <= 1e-5 * largest, "{found} against {wanted}");
    }
}

#[test]
fn every_process_gets_all_logits() {
    let case = Case { pipeline: 2, data: 2, ..Case::ONE_RANK };
    let plan = plan_of(&case);
    let source = batches(&plan, Lengths::Longest);
    let mut alone = Engine::for_inference(plan.clone(), Arc::clone(&source)).expect("ranks start");
    let wanted = bits(&logits_of(&mut alone, &source), &source, 8, 6);
    for cut in 1..4 {
        let both = in_two_processes(&plan, cut, |world, _| {
            let (plan, source) = (plan.clone(), Arc::clone(&source));
            let engine = Engine::for_inference_with(plan, Arc::clone(&source), world, &InitialState::Drawn);
            bits(&logits_of(&mut engine.expect("ranks start"), &source), &source, 8, 6)
        });
        assert!(both.iter().all(|found| *found == wanted), "ranks below {cut} in the first process");
    }
}

#[test]
fn room_for_other_batches_is_refused() {
    let plan = plan_of(&Case::ONE_RANK);
    let other = BatchLogits::for_plan(&plan_of(&Case { num_micro_batches: 3, ..Case::ONE_RANK })).unwrap();
    let source = batches(&plan, Lengths::Longest);
    let mut engine = Engine::for_inference(plan, Arc::clone(&source)).expect("ranks start");
    let refused = engine.batch_logits(&source, 1, &Arc::new(other));
    assert!(matches!(refused, Err(EngineError::OtherBatches)));
    engine.eval_batch(&source, 1).expect("the ranks go on");
}
