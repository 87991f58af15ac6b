//! Micro-batches of different lengths: the same bits on every grid, and no more sent than they have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipezero_config::{Checkpointing, Precision, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchSource, TokenBatch};
use pipezero_run::engine::{Engine, EngineError};
use serde_json::json;
use tests::{
    Case, Family, Lengths, Mask, RandomBatches, SGD, Sample, Schedule, Trained, assert_bit_identical,
    assert_close, train_with, two_steps, weights_of, zero,
};

fn trained(case: Case, lengths: Lengths) -> Trained {
    trained_run(two_steps(case), lengths)
}

fn trained_run(run: Run, lengths: Lengths) -> Trained {
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let source = RandomBatches::for_plan(&plan, Mask::None).with_lengths(lengths);
    train_with(plan, Arc::new(source), |_| {})
}

const SCHEDULES: [Schedule; 7] = [
    Schedule::GPipe,
    Schedule::OneFOneB,
    Schedule::Eager,
    Schedule::Interleaved { virtual_stages: 2 },
    Schedule::Bfs { virtual_stages: 2 },
    Schedule::ZbH1,
    Schedule::ZbV,
];

fn levels() -> [ZeroConfig; 3] {
    [
        zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
        zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0),
        zero(ZeroLevel::Zero3, ResidencyConfig::Units(3), 1),
    ]
}

/// What else a run may do with a micro-batch's tokens.
fn variants(case: &Case) -> Vec<Case> {
    let recomputes = if case.schedule.splits_backwards() { Checkpointing::Off } else { Checkpointing::Unit };
    vec![
        case.clone(),
        Case { dropout: 0.1, precision: Precision::Bf16, ..case.clone() },
        Case { document_attention: true, checkpointing: recomputes, ..case.clone() },
        Case { family: Family::Llama, tied: true, ..case.clone() },
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pipeline, data) in [(2, 1), (2, 2), (4, 2)] {
        for schedule in SCHEDULES {
            for zero in levels() {
                let case = Case {
                    num_layers: 8,
                    pipeline,
                    data,
                    num_micro_batches: 4,
                    schedule,
                    zero,
                    ..Case::ONE_RANK
                };
                cases.extend(variants(&case));
            }
        }
    }
    cases
}

#[test]
fn every_grid_gives_the_bits_of_one_pipeline_rank() {
    let mut sample =
        Sample::one_in(6, "grid with micro-batches of different lengths, to the bits of one pipeline rank");
    for case in cases().into_iter().filter(|_| sample.takes_next()) {
        let name = format!("{case:?}");
        let found = trained(case.clone(), Lengths::Drawn);
        let reference = trained(case.clone().reference(), Lengths::Drawn);
        assert_bit_identical(&found, &reference, &name);
        let longest = trained(case.reference(), Lengths::Longest);
        assert_ne!(longest.losses, found.losses, "lengths count in {name}");
    }
}

/// Attention is causal: what is behind the last target that counts changes nothing. So shorter micro-batches compute what longer ones do whose
/// last targets are ignored, but for the order of sums.
#[test]
fn a_shorter_micro_batch_is_a_longer_one_whose_end_does_not_count() {
    for family in [Family::Gpt2, Family::Llama] {
        let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, family, ..Case::ONE_RANK };
        let [short, masked] = [Lengths::Drawn, Lengths::Masked].map(|lengths| {
            let run = Run { optimizer: SGD, ..two_steps(case.clone()) };
            trained_run(run, lengths)
        });
        // Sums of f32 in another order.
        assert_close(&short, &masked, 1e-5, &format!("{family:?}"));
    }
}

/// A stage edge carries the activations of each micro-batch and their gradients, as long as it is; all else is as planned.
#[test]
fn as_much_is_sent_as_the_lengths_say_and_as_much_held_as_the_longest_needs() {
    for (schedule, zero) in SCHEDULES.into_iter().flat_map(|schedule| levels().map(|zero| (schedule, zero))) {
        let case = Case { pipeline: 2, data: 2, num_micro_batches: 4, schedule, zero, ..Case::ONE_RANK };
        let name = format!("{case:?}");
        let plan = Plan::even_if_refused(two_steps(case.clone())).unwrap();
        let (planned, longest) = (plan.forecast(), plan.micro_batch_shape().seq_length as u64);
        let source = RandomBatches::for_plan(&plan, Mask::None);
        let last = trained(case, Lengths::Drawn).last;
        for (rank, (measured, planned)) in last.measured().iter().zip(&planned).enumerate() {
            let data_rank = planned.data_rank;
            let drawn: u64 =
                (0..4).map(|micro_batch| source.drawn_length(2, data_rank, micro_batch) as u64).sum();
            assert_eq!(json!(measured.memory), json!(planned.memory), "rank {rank} of {name}");
            assert_eq!(measured.traffic.all_gather, planned.traffic.all_gather, "rank {rank} of {name}");
            assert_eq!(
                measured.traffic.reduce_scatter, planned.traffic.reduce_scatter,
                "rank {rank} of {name}"
            );
            assert_eq!(measured.traffic.all_reduce, planned.traffic.all_reduce, "rank {rank} of {name}");
            assert_eq!(measured.traffic.send.count, planned.traffic.send.count, "rank {rank} of {name}");
            let sent = planned.traffic.send.bytes * drawn / (4 * longest);
            assert_eq!(measured.traffic.send.bytes, sent, "rank {rank} of {name}");
        }
    }
}

/// Says another length where it is asked for micro-batch 1.
struct Says<F> {
    batches: RandomBatches,
    length: F,
}

impl<F: Fn() -> usize + Send + Sync> BatchSource for Says<F> {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        self.batches.micro_batch(step, data_rank, micro_batch, batch)
    }

    fn seq_length(&self, _: u64, _: usize, micro_batch: usize) -> Option<usize> {
        (micro_batch == 1).then(&self.length)
    }
}

fn engine_that_is_told(length: impl Fn() -> usize + Send + Sync + 'static) -> Engine {
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK };
    let plan = Plan::even_if_refused(two_steps(case)).unwrap();
    let batches = RandomBatches::for_plan(&plan, Mask::None);
    Engine::new(plan, Arc::new(Says { batches, length })).unwrap()
}

#[test]
fn a_length_that_cannot_be_leaves_the_step_out() {
    for said in [0, 7] {
        let length = Arc::new(AtomicUsize::new(said));
        let asked = Arc::clone(&length);
        let mut engine = engine_that_is_told(move || asked.load(Ordering::Relaxed));
        let before = weights_of(&mut engine);
        let error = engine.train_batch().unwrap_err();
        assert!(matches!(error, EngineError::Unread { .. }), "{error}");
        let expected = format!(
            "micro-batch 1: the source says that its sequences have {said} tokens, which must be 1 to 6, the model's seq_length"
        );
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(weights_of(&mut engine), before);
        length.store(6, Ordering::Relaxed);
        engine.train_batch().expect("a length that can be");
    }
}

/// Both ends of an edge compare what they send and expect.
#[test]
fn lengths_that_differ_between_stages_are_an_error() {
    let by_rank = || {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        if name.starts_with("rank-0.") || name.starts_with("rank-1.") { 3 } else { 4 }
    };
    let error = engine_that_is_told(by_rank).train_batch().unwrap_err();
    let EngineError::Stopped(report) = &error else { panic!("{error}") };
    let text = report.to_string();
    assert!(text.contains("a transfer of 72") && text.contains("a transfer of 96"), "{text}");
}
