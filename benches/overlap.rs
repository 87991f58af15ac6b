//! How much of gathering and reducing does prefetching hide?
//!
//! ```text
//! cargo bench -p benches --bench overlap
//! ```
//!
//! The real executor on a pipeline of 4 x 2 data ranks, 1F1B, 8 micro-batches, 3 units on every stage, strict residency.
//! Units are timed (they hold memory and sleep) and links are imitated, so 8 ranks need no 8 cores; what is measured is
//! the program's doing. A unit's backward takes twice its forward; a gather and a reduction take the given share of the
//! forward. Compute only is the same program over links that cost nothing.
//!
//! With prefetch 1 all but a rank's first gather and last reduction can be hidden where a gather fits into the forward and,
//! on one shared link, a gather and a reduction into the backward: the last column says how far a step is above compute
//! only and those two.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benches::{median, run};
use pipezero::config::*;
use pipezero::data::Zeros;
use pipezero::engine::Engine;
use pipezero::plan::Plan;

const PIPELINE: usize = 4;
const DATA: usize = 2;
const UNITS_PER_STAGE: usize = 3;
const NUM_MICRO_BATCHES: usize = 8;
const NUM_STEPS: usize = 5;

/// Of one unit.
const FORWARD: Duration = Duration::from_millis(6);
const PARAMETERS_PER_UNIT: usize = 1 << 15;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<8}{:>16}{:>12}{:>12}{:>10}{:>14}{:>10}",
        "link", "gather/forward", "prefetch 0", "prefetch 1", "shorter", "compute only", "above"
    );
    for shared in [false, true] {
        for share in [0.75, 0.875, 1.0] {
            // Where they share a link, a gather and a reduction must fit into a backward together.
            measure(shared, share)?;
        }
    }
    Ok(())
}

fn measure(shared: bool, share: f64) -> Result<(), Box<dyn Error>> {
    let transfer = FORWARD.mul_f64(share);
    let links = links(transfer, shared);
    let [exposed, hidden, alone] = [(0, Some(links)), (1, Some(links)), (1, None)]
        .map(|(prefetch_units, links)| step(prefetch_units, links));
    let (exposed, hidden, alone) = (exposed?, hidden?, alone?);
    let shorter = 1.0 - hidden.as_secs_f64() / exposed.as_secs_f64();
    // The first gather and the last reduction.
    let expected = alone + 2 * transfer;
    let above = hidden.as_secs_f64() / expected.as_secs_f64() - 1.0;
    println!(
        "{:<8}{share:>16.3}{:>9.1} ms{:>9.1} ms{:>8.1} %{:>11.1} ms{:>8.1} %",
        if shared { "shared" } else { "own" },
        1e3 * exposed.as_secs_f64(),
        1e3 * hidden.as_secs_f64(),
        100.0 * shorter,
        1e3 * alone.as_secs_f64(),
        100.0 * above,
    );
    Ok(())
}

/// Links over which a unit's gather takes `transfer`; its reduction has as many bytes.
fn links(transfer: Duration, shared: bool) -> Links {
    let sent_bytes = 4 * PARAMETERS_PER_UNIT * (DATA - 1) / DATA;
    let link = Link { latency: Duration::ZERO, bytes_per_s: sent_bytes as f64 / transfer.as_secs_f64() };
    // Stage edges are far and fast: what is studied is the data axis.
    let far = Link { latency: Duration::ZERO, bytes_per_s: 1e12 };
    Links { ranks_per_node: DATA, near: link, far, shared }
}

/// The median time of a step after the first.
fn step(prefetch_units: usize, links: Option<Links>) -> Result<Duration, Box<dyn Error>> {
    let mut run = run();
    run.model = ModelConfig::Timed(TimedConfig {
        num_layers: PIPELINE * UNITS_PER_STAGE,
        seq_length: 1,
        parameters_per_layer: PARAMETERS_PER_UNIT,
        activation_elements: 64,
        forward: FORWARD,
        backward_input: FORWARD,
        backward_weight: FORWARD,
        recompute: FORWARD,
    });
    run.parallel.pipeline = PIPELINE;
    run.parallel.data = DATA;
    run.batch = BatchConfig {
        train_batch_size: NUM_MICRO_BATCHES * DATA,
        micro_batch_size: 1,
        num_micro_batches: NUM_MICRO_BATCHES,
    };
    run.zero.level = ZeroLevel::Zero3;
    run.zero.reduce = ReductionPolicy::Every;
    run.zero.resident_units = ResidencyConfig::Strict;
    run.zero.prefetch_units = prefetch_units;
    run.comm.links = links;
    let mut engine = Engine::new(Plan::new(run)?, Arc::new(Zeros))?;
    engine.train_batch()?;
    let mut steps = Vec::with_capacity(NUM_STEPS);
    for _ in 0..NUM_STEPS {
        let start = Instant::now();
        engine.train_batch()?;
        steps.push(start.elapsed());
    }
    Ok(median(steps))
}
