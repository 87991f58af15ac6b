//! Runs the body of a test in many orders of its threads.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

pub(crate) use super::scheduled::pass;

/// Of every so many executions one is drawn by [`PctScheduler`].
const ONE_OF_PRIORITIES: usize = 4;

/// Runs the body so many times, each with threads in another order, and prints how many times that was: most in an order where each step
/// is any thread's, the rest where threads have priorities that change a few times (Burckhardt et al., *A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs*, 2010).
///
/// # Panics
/// When the body panics, or all of its threads wait for each other; the order in which they ran is printed then.
#[track_caller]
pub fn in_random_orders(num_executions: usize, body: impl Fn() + Clone + Send + Sync + 'static) {
    let by_priority = num_executions / ONE_OF_PRIORITIES;
    let steps = RandomScheduler::new_from_seed(seed(), num_executions - by_priority);
    let priorities = PctScheduler::new_from_seed(seed(), 3, by_priority.max(1));
    let num_run = run(steps, body.clone(), FailurePersistence::Print)
        + run(priorities, body, FailurePersistence::Print);
    assert!(num_run >= num_executions, "{num_run} of {num_executions}");
    say(&format!("{num_run} executions"));
}

/// Prints a line for this test, also where what tests print is not shown: an order that was not drawn has not been tested.
pub fn say(what: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stdout(), "shuttle | {test} | {what}");
}

/// Whether the threads of the body come to wait for each other in one random order.
pub fn hangs(body: impl Fn() + Send + Sync + 'static) -> bool {
    let scheduler = RandomScheduler::new_from_seed(seed(), 1);
    let ran = catch_unwind(AssertUnwindSafe(|| run(scheduler, body, FailurePersistence::None)));
    ran.err().is_some_and(|panic| is_deadlock(&*panic) || resume_unwind(panic))
}

fn is_deadlock(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|message| message.starts_with("deadlock!"))
}

fn run(
    scheduler: impl Scheduler + 'static,
    body: impl Fn() + Send + Sync + 'static,
    persistence: FailurePersistence,
) -> usize {
    let mut config = Config::new();
    // Messages of errors are made on it.
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    config.failure_persistence = persistence;
    Runner::new(scheduler, config).run(body)
}

/// The one that the gate gives `proptest`; another in each full run.
fn seed() -> u64 {
    let given = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0))
}
