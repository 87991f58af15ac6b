//! What does it cost that layers ask a queue for kernels, instead of calling them?
//!
//! ```text
//! cargo bench -p benches --bench dispatch
//! ```
//!
//! Of a step of the quickstart: how many kernels, events and marks its ranks ask their queues for, which the deferred device counts;
//! what one such call costs beyond the kernel itself, by the host's queue behind its trait object against the kernel called directly on
//! slices of one element, medians of nine rounds in turn; and the product, as a share of the step's time on all cores.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use pipezero_config::{Resources, RunFile};
use pipezero_models::kernels::sum;
use pipezero_models::queue::Deferred;
use pipezero_models::{Buffer, Device, Host, Queue};
use pipezero_plan::Plan;
use pipezero_run::Engine;
use pipezero_train::training_batches;

const NUM_CALLS: usize = 1 << 20;
const NUM_ROUNDS: usize = 9;
const NUM_STEPS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let file =
        RunFile::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/configs/quickstart.json").as_ref())?;
    let (plan, _) = Plan::from_file(&file, Resources::this_host())?;
    // The clock of the deferred device is the number of what it has run, for all ranks.
    let num_asked = median(&steps(plan.clone(), Arc::new(Deferred::new(0)), 3)?) * 1e9;
    let step_s = median(&steps(plan, Arc::new(Host), NUM_STEPS)?);
    let call_s = dispatch_s(&*Host.queue()?)?;
    let num_cores = available_parallelism()?.get() as f64;
    println!("asked for in a step  beyond the kernel      step  share of {num_cores} cores");
    let share = 100.0 * num_asked * call_s / (num_cores * step_s);
    println!("{num_asked:>19.0}  {:>14.1} ns  {:>5.1} ms  {share:>15.3} %", 1e9 * call_s, 1e3 * step_s);
    Ok(())
}

/// How long steps take, seconds, after one that warms up.
fn steps(plan: Plan, device: Arc<dyn Device>, num_steps: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let batches = training_batches(&plan)?;
    let mut engine = Engine::on_device(plan, batches, device)?;
    engine.train_batch()?;
    (0..num_steps).map(|_| Ok(engine.train_batch()?.step_s)).collect()
}

/// What a call through the queue takes longer than the kernel.
fn dispatch_s(queue: &dyn Queue) -> Result<f64, Box<dyn Error>> {
    let (term, mut sum) = (Buffer::from_vec(vec![1.0_f32])?, Buffer::from_vec(vec![0.0_f32])?);
    let (plain_term, mut plain_sum) = ([1.0_f32], [0.0_f32]);
    let mut differences = Vec::new();
    for _ in 0..NUM_ROUNDS {
        let start = Instant::now();
        for _ in 0..NUM_CALLS {
            black_box(queue).add(black_box(&term).view(), black_box(&mut sum).view_mut());
        }
        let through_queue = start.elapsed();
        let start = Instant::now();
        for _ in 0..NUM_CALLS {
            sum::add(black_box(&mut plain_sum), black_box(&plain_term));
        }
        differences.push((through_queue.as_secs_f64() - start.elapsed().as_secs_f64()) / NUM_CALLS as f64);
    }
    Ok(median(&differences))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
