//! How near is each kernel to what a GPU could do?
//!
//! ```text
//! cargo bench -p benches --bench gpu_kernels -- 124m    or 1.3b, or tiny, which any device runs
//! ```
//!
//! Each kernel of a training step in bf16, at the shapes of a model, several times in a row on the first GPU: its time between two marks of the
//! device, the bytes that it has to read and write, the operations of its products, and its floor: the time that an H100 needs for these at the rates
//! below. A line `kernel,shape,ns,bytes,flops,floor_ns,share` each, as soon as it is known; the share is floor / time.

mod cases;
mod model;

use std::error::Error;
use std::process::ExitCode;

use benches::{chosen, exit_code};
use cases::Case;
use model::{MODELS, ModelShape};
use pipezero_models::Device;
use pipezero_models::queue::{Cuda, F32Products, Queue};

/// Calls that are timed together.
const NUM_CALLS: u32 = 20;

/// What products of bf16 achieve on an H100 at the size of a layer; its peak is 989.
const PRODUCTS_FLOPS_PER_S: f64 = 750e12;
/// What attention achieves there with `wgmma`.
const ATTENTION_FLOPS_PER_S: f64 = 350e12;
/// What copies achieve, of 3.35e12.
const BYTES_PER_S: f64 = 3.0e12;

fn main() -> ExitCode {
    exit_code(run().map(|()| true))
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = Cuda::open(0, F32Products::Whole)?;
    let queue = device.queue()?;
    eprintln!("computing on: {}", device.name()?);
    println!("kernel,shape,ns,bytes,flops,floor_ns,share");
    for name in chosen(&MODELS.map(|(name, _)| name))? {
        let (_, model) =
            MODELS.into_iter().find(|(known, _)| *known == name).ok_or("a model of this name")?;
        measure(&*queue, &model)?;
    }
    Ok(())
}

fn measure(queue: &dyn Queue, model: &ModelShape) -> Result<(), Box<dyn Error>> {
    // Each case is dropped before the next allocates.
    for case in cases::ALL {
        let mut case: Case = case(queue, model)?;
        let ns = time_ns(queue, &mut case)?;
        let rate = if case.is_attention { ATTENTION_FLOPS_PER_S } else { PRODUCTS_FLOPS_PER_S };
        let floor_ns = 1e9 * (case.bytes / BYTES_PER_S).max(case.flops / rate);
        let Case { kernel, shape, bytes, flops, .. } = &case;
        println!("{kernel},{shape},{ns:.0},{bytes:.0},{flops:.0},{floor_ns:.0},{:.3}", floor_ns / ns);
    }
    Ok(())
}

/// Of one call, after one that chooses algorithms and fills caches.
fn time_ns(queue: &dyn Queue, case: &mut Case) -> Result<f64, Box<dyn Error>> {
    (case.call)(queue);
    let start = queue.mark();
    (0..NUM_CALLS).for_each(|_| (case.call)(queue));
    let (end, here) = (queue.mark(), queue.record());
    let ns = queue.time_ns(end).saturating_sub(queue.time_ns(start));
    queue.forget_marks();
    // A device that failed gives no times.
    queue.has_reached(&here)?;
    Ok((ns as f64 / f64::from(NUM_CALLS)).max(1.0))
}
