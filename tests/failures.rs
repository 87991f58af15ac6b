//! A rank that fails stops all ranks, with one report: what caused it, and where every rank was.
//!
//! Ranks fail here in their batch source, the one piece of a user's code that runs inside them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use pipezero_comm::CommError;
use pipezero_config::{ModelConfig, Precision, ReductionPolicy, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_models::queue::Deferred;
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchSource, TokenBatch};
use pipezero_run::engine::{Engine, EngineError, Report};
use pipezero_run::executor::Cause;
use tests::{
    Case, FP16, Mask, NO_ZERO, RandomBatches, assert_same_weights, at_rate, in_two_processes,
    plan_and_batches, small_run, started, weights_of,
};

/// Two stages on two data ranks: world ranks 0 and 1 run the first stage, 2 and 3 the second. Gathers, reductions and
/// both directions of transfers are at work.
fn run() -> Run {
    let zero = ZeroConfig {
        level: ZeroLevel::Zero3,
        resident_units: ResidencyConfig::Units(2),
        prefetch_units: 1,
        reduce: ReductionPolicy::Every,
        ..NO_ZERO
    };
    small_run(Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK })
}

/// An engine whose rank `rank` has a fault after it read micro-batch 1 of step 2.
fn engine(
    run: Run,
    rank: usize,
    fault: impl Fn(&mut TokenBatch) -> Result<(), BatchError> + Send + Sync + 'static,
) -> Engine {
    let plan = Plan::even_if_refused(run).unwrap();
    let source = failing(&plan, rank, fault);
    Engine::new(plan, source).unwrap()
}

/// A source that has a fault for a rank at micro-batch 1 of its second batch.
fn failing(
    plan: &Plan,
    rank: usize,
    fault: impl Fn(&mut TokenBatch) -> Result<(), BatchError> + Send + Sync + 'static,
) -> Arc<dyn BatchSource> {
    Arc::new(RandomBatches::for_plan(plan, Mask::None).with_fault(rank, fault))
}

/// The report of a step that stops.
fn stopped(engine: &mut Engine) -> Report {
    match engine.train_batch() {
        Err(EngineError::Stopped(report)) => report,
        other => panic!("{other:?}"),
    }
}

/// Runs until the fault; the first line of the report is its cause, and every other rank stopped because of it.
fn first_line(mut engine: Engine) -> String {
    engine.train_batch().unwrap();
    let report = stopped(&mut engine);
    let mut ranks: Vec<usize> = report.failures().iter().map(|failure| failure.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1, 2, 3], "the report names every rank once");
    for failure in &report.failures()[1..] {
        assert!(matches!(&failure.cause, Cause::Comm(error) if error.is_stop()), "{failure}");
    }
    assert!(matches!(engine.train_batch(), Err(EngineError::AlreadyStopped)));
    let report = report.to_string();
    let mut lines = report.lines();
    assert_eq!(lines.next(), Some("all ranks have stopped; the cause comes first"));
    lines.next().unwrap().to_owned()
}

#[test]
fn a_panic_stops_all_ranks() {
    let engine = engine(run(), 1, |_| panic!("the tokenizer is gone"));
    expect!["  rank 1 at step 2, reading micro-batch 1: panicked: the tokenizer is gone"]
        .assert_eq(&first_line(engine));
}

/// Such a stage reads no tokens, but attends within documents.
#[test]
fn a_stage_in_the_middle_reads_where_documents_begin() {
    let case = Case { pipeline: 4, num_micro_batches: 3, document_attention: true, ..Case::ONE_RANK };
    let mut engine = engine(small_run(case), 1, |batch| {
        batch.document_starts[3] = 9;
        Ok(())
    });
    engine.train_batch().unwrap();
    let before = weights_of(&mut engine);
    let error = engine.train_batch().unwrap_err();
    expect![[r#"
        step 2: rank 1, reading micro-batch 1: the source says that the document of token 3 of row 0 begins at 9, but a token's document is that of the token before it, which begins at 0, or begins with it; write 0 or 3; no weight was changed
    "#]]
    .assert_eq(&format!("{error}\n"));
    assert_same_weights(&weights_of(&mut engine), &before, "the weights before the step");
}

/// A source that fails, or gives what cannot be used, ends the step: the weights are those before it, and the next step may succeed.
#[test]
fn a_micro_batch_that_cannot_be_read_leaves_the_weights_as_they_are() {
    type Fault = fn(&mut TokenBatch) -> Result<(), BatchError>;
    let faults: [(usize, Fault); 4] = [
        (2, |_| Err("no such shard".into())),
        (0, |batch| {
            batch.inputs[4] = 17;
            Ok(())
        }),
        (3, |batch| {
            batch.targets[0] = u32::MAX - 1;
            Ok(())
        }),
        (0, |batch| {
            batch.targets.push(0);
            Ok(())
        }),
    ];
    let mut found = String::new();
    for (rank, fault) in faults {
        for precision in [Precision::F32, FP16] {
            let mut engine = engine(Run { precision, ..run() }, rank, fault);
            engine.train_batch().unwrap();
            let before = weights_of(&mut engine);
            let error = engine.train_batch().unwrap_err();
            assert!(matches!(error, EngineError::Unread { step: 2, .. }), "{error}");
            assert_same_weights(&weights_of(&mut engine), &before, "the weights before the step");
            assert_eq!(engine.position().step, 1);
            let error_of_evaluation = {
                let source = failing(engine.plan(), rank, fault);
                engine.eval_batch(&source, 2).unwrap_err()
            };
            let expected = error.to_string().replace("step 2: ", "evaluation, batch 2: ");
            assert_eq!(format!("{error_of_evaluation}; no weight was changed"), expected);
            assert_same_weights(&weights_of(&mut engine), &before, "the weights before the evaluation");
            if precision == Precision::F32 {
                found += &format!("{error}\n");
            }
        }
    }
    expect![[r#"
        step 2: rank 2, reading micro-batch 1: the source failed: no such shard; no weight was changed
        step 2: rank 0, reading micro-batch 1: the source gave token 17 as input 4, but the model knows tokens below vocab_size 17; no weight was changed
        step 2: rank 3, reading micro-batch 1: the source gave token 4294967294 as target 0, but the model knows tokens below vocab_size 17; no weight was changed
        step 2: rank 0, reading micro-batch 1: the source left 12 inputs and 13 targets in a micro-batch of 12 tokens; fill the vectors, do not resize them; no weight was changed
    "#]]
    .assert_eq(&found);
}

#[test]
fn a_rank_that_stalls_is_named_with_all_who_wait_for_it() {
    let mut run = run();
    run.comm.timeout = Duration::from_secs(2);
    let (release, blocked) = channel::<()>();
    let blocked: Mutex<Receiver<()>> = Mutex::new(blocked);
    let mut engine = engine(run, 1, move |_| Ok(blocked.lock().unwrap().recv()?));
    engine.train_batch().unwrap();
    let report = stopped(&mut engine);
    let mut failures: Vec<_> = report.failures().iter().collect();
    assert_eq!(failures[0].rank, 1, "the rank that does not answer is the cause: {report}");
    failures.sort_by_key(|failure| failure.rank);
    let last = report.to_string().lines().last().map(str::to_owned);
    let expected = "`comm.timeout_s` bounds every wait: if the ranks were only slow, set more seconds";
    assert_eq!(last.as_deref(), Some(expected));
    // Which of the waiting ranks' time-outs ends first is open, and the others are stopped by it.
    let missing = failures.iter().map(|failure| match &failure.cause {
        Cause::Comm(CommError::Timeout { missing, operation, .. })
        | Cause::Comm(CommError::Interrupted { missing, operation }) => {
            format!("rank {} at {}: waits for {missing:?} in {operation}\n", failure.rank, failure.position)
        }
        Cause::Stalled => format!("{failure}\n"),
        other => panic!("{other}"),
    });
    expect![[r#"
        rank 0 at step 2, instruction 4 (F u0 m0, which needs UNSHARD u0): waits for [1] in an all-gather of elements 0..2208
        rank 1 at step 2, reading micro-batch 1: does not answer
        rank 2 at step 2, instruction 4 (F u3 m0, which needs RECV s0>s1 m0): waits for [0] in a transfer of 144 elements
        rank 3 at step 2, instruction 4 (F u3 m0, which needs RECV s0>s1 m0): waits for [1] in a transfer of 144 elements
    "#]].assert_eq(&missing.collect::<String>());
    assert!(
        report
            .failures()
            .iter()
            .any(|failure| matches!(&failure.cause, Cause::Comm(error) if !error.is_stop()))
    );
    assert!(matches!(engine.train_batch(), Err(EngineError::AlreadyStopped)));
    // The rank is still blocked: the engine does not wait for it.
    drop(engine);
    release.send(()).unwrap();
}

#[test]
fn a_failed_engine_leaves_saved_weights_as_they_were() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("weights.safetensors");
    let mut engine = engine(run(), 1, |_| panic!("the tokenizer is gone"));
    engine.train_batch().unwrap();
    engine.save(&path).unwrap();
    let saved = std::fs::read(&path).unwrap();
    stopped(&mut engine);
    assert!(matches!(engine.save(&path), Err(EngineError::AlreadyStopped)));
    assert_eq!(std::fs::read(&path).unwrap(), saved);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no half file is left beside it");
}

/// An engine whose first step takes all weights to where nothing is finite any more, after that step.
fn diverged() -> (Engine, Arc<dyn BatchSource>) {
    let (plan, source) = plan_and_batches(at_rate(1e30, run()), Mask::None);
    let mut engine = Engine::new(plan, Arc::clone(&source)).unwrap();
    engine.train_batch().unwrap();
    (engine, source)
}

#[test]
fn a_run_that_diverges_ends_at_the_step_that_shows_it() {
    let (mut engine, _) = diverged();
    let before = weights_of(&mut engine);
    for _ in 0..2 {
        let error = engine.train_batch().unwrap_err();
        expect!["step 2: the loss of micro-batch 0 on rank 2 is not finite (NaN): the first output that is not finite is that of layer h.0.attn (unit u0, rank 0), NaN at token 0 of sequence 0; all weights are finite; no weight was changed; lower the learning rate or look at the data of this step"]
            .assert_eq(&error.to_string());
        assert_eq!(engine.position().step, 1);
    }
    assert_same_weights(
        &weights_of(&mut engine),
        &before,
        "the engine goes on with the weights before the step",
    );
}

/// Both say what has ceased to be finite first, wherever the rank is that has found it.
#[test]
fn two_processes_name_what_is_not_finite_alike() {
    let (plan, source) = plan_and_batches(at_rate(1e30, run()), Mask::None);
    let error_of = |mut engine: Engine| {
        engine.train_batch().expect("the first step");
        engine.train_batch().expect_err("the weights are infinite").to_string()
    };
    let expected = error_of(Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start"));
    assert!(expected.starts_with("step 2: the loss of micro-batch 0 on rank 2 is not finite"), "{expected}");
    for cut in 1..plan.grid().world_size() {
        let found = in_two_processes(&plan, cut, |world, _| {
            let (plan, batches) = (plan.clone(), Arc::clone(&source));
            error_of(Engine::in_world(plan, batches, world).expect("ranks start"))
        });
        assert_eq!(found, [expected.clone(), expected.clone()], "cut at {cut}");
    }
}

/// The queue has come to the step's end when its sums are read, and the report names that step.
#[test]
fn a_device_that_runs_behind_the_host_reports_the_same_step() {
    let start = |plan, source| Engine::on_device(plan, source, Arc::new(Deferred::new(5)));
    let mut engine = started(start, at_rate(1e30, run()), Mask::None);
    engine.train_batch().unwrap();
    assert!(matches!(engine.train_batch(), Err(EngineError::NotFinite { step: 2, .. })));
}

#[test]
fn an_evaluation_without_a_loss_is_an_error() {
    let (mut engine, source) = diverged();
    let before = weights_of(&mut engine);
    for _ in 0..2 {
        let error = engine.eval_batch(&source, 1).unwrap_err();
        expect!["evaluation: the loss of micro-batch 0 on rank 2 is not finite (NaN): the first output that is not finite is that of layer h.0.attn (unit u0, rank 0), NaN at token 0 of sequence 0; all weights are finite; train again at a lower rate"]
            .assert_eq(&error.to_string());
    }
    assert_same_weights(&weights_of(&mut engine), &before, "the ranks go on");
}

#[test]
fn a_plan_larger_than_the_memory_is_refused_before_anything_is_allocated() {
    let mut run = run();
    let ModelConfig::Gpt2(sizes) = &mut run.model else { unreachable!("small runs are GPTs") };
    sizes.hidden_size = 3 << 20;
    let plan = Plan::even_if_refused(run).unwrap();
    let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
    let error = Engine::new(plan, source).expect_err("no machine has hundreds of TiB");
    assert!(
        matches!(error, EngineError::Memory { num_ranks: 4, needed_bytes, .. } if needed_bytes > 1 << 48),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.starts_with("the run needs ") && text.contains(" of memory (ranks: 4), but "), "{text}");
}

/// The only rank of a process stalls: its process hears of the stop all the same, and both give one report.
#[test]
fn a_process_whose_only_rank_stalls_ends_with_the_other() {
    for (cut, rank) in [(3, 3), (1, 0)] {
        let (release, blocked) = channel::<()>();
        let blocked = Mutex::new(blocked);
        let released = Mutex::new(Some(release));
        let num_ended = AtomicUsize::new(0);
        let mut run = run();
        run.comm.timeout = Duration::from_secs(1);
        let plan = Plan::even_if_refused(run).unwrap();
        let source = RandomBatches::for_plan(&plan, Mask::None)
            .with_fault(rank, move |_| Ok(blocked.lock().expect("no rank panics").recv()?));
        let source: Arc<dyn BatchSource> = Arc::new(source);
        let reports = in_two_processes(&plan, cut, |world, _| {
            let batches = Arc::clone(&source);
            let mut engine = Engine::in_world(plan.clone(), batches, world).expect("ranks start");
            engine.train_batch().expect("the first step has no fault");
            let report = engine.train_batch().expect_err("a rank stalls").to_string();
            if num_ended.fetch_add(1, Ordering::AcqRel) == 1 {
                drop(released.lock().expect("no process panics").take());
            }
            report
        });
        assert_eq!(reports[0], reports[1], "cut {cut}");
        let first = reports[0].lines().nth(1).unwrap_or_default();
        assert!(
            first.starts_with(&format!("  rank {rank} at ")) && first.ends_with("does not answer"),
            "{first}"
        );
    }
}
