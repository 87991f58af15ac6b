//! How near is each kernel to what a GPU could do?
//!
//! ```text
//! cargo bench -p benches --bench gpu_kernels -- 124m                     or 1.3b, or tiny, which any device runs
//! cargo bench -p benches --bench gpu_kernels -- 124m --only attention    the kernels of this name
//! ```
//!
//! Each kernel of a training step in bf16, at the shapes of a model, on random data, several times on the first GPU. Before each call other memory is written, so that the
//! caches hold nothing of the operands. A line `kernel,shape,ns,bytes,flops,floor_ns,share` each, as soon as it is known: the mean time between two marks around a call, the bytes that it has to read and
//! write, the operations of its products, and its floor, the time that an H100 needs for these at the rates below. The share is floor / time. `pipezero profile --kernels` has the times of a
//! run's own kernels.

mod cases;
mod model;
mod operands;

use std::error::Error;
use std::process::ExitCode;

use benches::exit_code;
use cases::Case;
use model::{MODELS, ModelShape};
use pipezero_models::Device;
use pipezero_models::element::ElementType;
use pipezero_models::queue::{Cuda, F32Products, Queue};

/// Calls of a kernel.
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

/// What users write behind the benchmark's name.
struct Arguments {
    models: Vec<ModelShape>,
    /// All kernels where it is empty.
    only: Vec<String>,
}

impl Arguments {
    fn read() -> Result<Self, Box<dyn Error>> {
        let (mut models, mut only) = (Vec::new(), Vec::new());
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => only.push(arguments.next().ok_or("--only needs the name of a kernel")?),
                // Cargo's own.
                "--bench" => {}
                name => {
                    let known = MODELS.into_iter().find(|(known, _)| *known == name);
                    let names = MODELS.map(|(known, _)| known).join(", ");
                    let (_, model) =
                        known.ok_or_else(|| format!("`{name}` is unknown; there are {names}"))?;
                    models.push(model);
                }
            }
        }
        if models.is_empty() {
            models.extend(MODELS.map(|(_, model)| model));
        }
        Ok(Self { models, only })
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let Arguments { models, only } = Arguments::read()?;
    let device = Cuda::open(0, F32Products::Whole)?;
    let queue = device.queue()?;
    eprintln!("computing on: {}", device.name()?);
    println!("kernel,shape,ns,bytes,flops,floor_ns,share");
    let mut num_measured = 0;
    for model in models {
        num_measured += measure(&*queue, &model, &only)?;
    }
    if num_measured == 0 {
        return Err(format!("no kernel is called {}", only.join(" or ")).into());
    }
    Ok(())
}

/// Prints a line for each kernel; how many there were.
fn measure(queue: &dyn Queue, model: &ModelShape, only: &[String]) -> Result<usize, Box<dyn Error>> {
    let mut flushed = queue.zeros(model.flushed_bytes() / 4, ElementType::F32)?;
    let mut num_measured = 0;
    // Each case is dropped before the next allocates.
    for case in cases::ALL {
        let mut case: Case = case(queue, model)?;
        if !only.is_empty() && !only.iter().any(|name| name == case.kernel) {
            continue;
        }
        let ns = time_ns(queue, &mut case, &mut || queue.clear(flushed.view_mut()))?;
        let rate = if case.is_attention { ATTENTION_FLOPS_PER_S } else { PRODUCTS_FLOPS_PER_S };
        let floor_ns = 1e9 * (case.bytes / BYTES_PER_S).max(case.flops / rate);
        let Case { kernel, shape, bytes, flops, .. } = &case;
        println!("{kernel},{shape},{ns:.0},{bytes:.0},{flops:.0},{floor_ns:.0},{:.3}", floor_ns / ns);
        num_measured += 1;
    }
    Ok(num_measured)
}

/// The mean of the calls, after one that chooses algorithms. `flush` comes before each, and is not in it.
fn time_ns(queue: &dyn Queue, case: &mut Case, flush: &mut dyn FnMut()) -> Result<f64, Box<dyn Error>> {
    (case.call)(queue);
    let calls: Vec<_> = (0..NUM_CALLS)
        .map(|_| {
            flush();
            let start = queue.mark();
            (case.call)(queue);
            (start, queue.mark())
        })
        .collect();
    let here = queue.record();
    let time = |(start, end)| queue.time_ns(end).saturating_sub(queue.time_ns(start));
    let ns: u64 = calls.into_iter().map(time).sum();
    queue.forget_marks();
    // A device that failed gives no times.
    queue.has_reached(&here)?;
    Ok((ns as f64 / f64::from(NUM_CALLS)).max(1.0))
}
