//! A device that fails, or never comes to a point, ends the run with one report.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pipezero_comm::CommError;
use pipezero_models::queue::{Deferred, Event};
use pipezero_models::{CrossEntropy, Device, Host, Loss, ModelError, Queue, View, ViewMut, gpt2};
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, EngineError, Report};
use pipezero_run::executor::Cause;
use tests::{Case, Mask, RandomBatches, plan_and_batches, small_run};

fn grid() -> Case {
    Case { pipeline: 2, data: 2, num_micro_batches: 3, ..Case::ONE_RANK }
}

/// The report of what stopped.
fn stopped(done: Result<(), EngineError>) -> Report {
    match done {
        Err(EngineError::Stopped(report)) => report,
        other => panic!("{other:?}"),
    }
}

/// A loss whose kernels wait for a point that no queue of their device comes to.
#[derive(Debug)]
struct Stuck(Event);

impl Loss for Stuck {
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
        loss: ViewMut<'_>,
    ) {
        queue.wait(&self.0, "what never comes");
        CrossEntropy.forward(queue, logits, targets, inputs, per_row, loss);
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
        CrossEntropy.backward(queue, logits, targets, inputs, per_row, seed);
    }
}

#[test]
fn a_queue_that_waits_for_what_never_comes_is_reported_after_the_time_out() {
    let mut run = small_run(grid());
    run.comm.timeout = Duration::from_secs(1);
    let other = Deferred::new(0).queue().unwrap();
    let model = gpt2::build_with_loss(run.model.gpt().unwrap(), Arc::new(Stuck(other.record()))).unwrap();
    let plan = Plan::with_model(run, model).unwrap();
    let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
    let mut engine = Engine::on_device(plan, source, Arc::new(Deferred::new(5))).unwrap();
    let report = stopped(engine.train_batch().map(drop));
    let [first, others @ ..] = report.failures() else { panic!("{report}") };
    assert!(matches!(first.cause, Cause::Comm(CommError::Unfinished { .. })), "{report}");
    assert_eq!(others.len(), 3);
    assert!(report.to_string().contains("for the rank's own compute queue"), "{report}");
}

/// A device that gives its queues only to so many.
#[derive(Debug)]
struct Exhausted(AtomicUsize);

impl Device for Exhausted {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        let left = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| ModelError::Device { reason: "it has no queue left".to_owned() })?;
        Host.queue()
    }
}

/// Four queues of ranks, then lanes: gathers of a pair of data ranks, and so on.
#[test]
fn a_device_without_queues_is_reported_when_ranks_start_and_later() {
    for num_queues in 0..9 {
        let (plan, source) = plan_and_batches(small_run(grid()), Mask::None);
        let device = Arc::new(Exhausted(AtomicUsize::new(num_queues)));
        let started = Engine::on_device(plan, source, device);
        assert_eq!(started.is_ok(), num_queues >= 4, "{num_queues}");
        let failed = started.and_then(|mut engine| engine.train_batch().map(drop));
        let text = stopped(failed).to_string();
        assert!(text.contains("the device has failed: it has no queue left"), "{num_queues}: {text}");
    }
}

/// A loss with a kernel that panics.
#[derive(Debug)]
struct Broken;

impl Loss for Broken {
    fn forward(
        &self,
        queue: &dyn Queue,
        _: View<'_>,
        _: View<'_>,
        _: Option<View<'_>>,
        _: ViewMut<'_>,
        _: ViewMut<'_>,
    ) {
        queue.on_host(&[], Vec::new(), Box::new(|_, _| panic!("the kernel is broken")));
    }

    fn backward(&self, _: &dyn Queue, _: ViewMut<'_>, _: View<'_>, _: Option<View<'_>>, _: View<'_>, _: f32) {
    }
}

/// The host's kernels run where they are asked for: the report names the rank, the instruction and its layers. Those of a device that
/// defers them run in the thread of any rank, and the message says whose they are.
#[test]
fn a_kernel_that_panics_is_reported_with_who_asked_for_it() {
    let stop = |device: Arc<dyn Device>| {
        let run = small_run(grid());
        let model = gpt2::build_with_loss(run.model.gpt().unwrap(), Arc::new(Broken)).unwrap();
        let plan = Plan::with_model(run, model).unwrap();
        let source = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
        stopped(Engine::on_device(plan, source, device).unwrap().train_batch().map(drop))
    };
    let report = stop(Arc::new(Host)).to_string();
    let cause = report.lines().nth(1).unwrap();
    assert!(
        cause.starts_with("  rank 2 at step 1, instruction ") || cause.starts_with("  rank 3 at step 1, "),
        "{report}"
    );
    assert!(cause.contains("ln_f or lm_head: the kernel is broken"), "{report}");
    for seed in 0..4 {
        let report = stop(Arc::new(Deferred::new(seed))).to_string();
        let cause = report.lines().nth(1).unwrap();
        let is_told =
            |rank| cause.contains(&format!("`on_host`, which rank-{rank}.0 asked for: the kernel is broken"));
        assert!(is_told(2) || is_told(3), "{report}");
    }
}
