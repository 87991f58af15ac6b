//! What each of two processes runs between which there is a slow line: one that delivers late, or one of a low rate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use pipezero_config::{BackendName, Link, Links, Run};
use pipezero_plan::Plan;
use pipezero_plan::costs::{DeviceSpec, Source};
use pipezero_plan::what_if::Simulation;
use pipezero_run::data::Zeros;
use pipezero_run::engine::Engine;
use pipezero_run::world::ProcessWorld;
use tests::{EndOnPanic, example};

use super::Line;

/// The file for what is measured.
pub(super) const MEASURED: &str = "PIPEZERO_TEST_MEASURED";
/// Which line there is: its place in [`LINES`].
pub(super) const LINE: &str = "PIPEZERO_TEST_LINE";
/// The lines that are measured.
pub(super) const LINES: [Line; 2] = [Line::Late { ms: 20 }, Line::Limited { mbit: 100 }];
/// Steps that are measured, after one that is not.
const NUM_STEPS: usize = 3;

/// Runs that differ in whether something hides that the line is slow: their names, and what is set.
pub(super) const CASES: [(&str, [&str; 5]); 4] = [
    (
        "gathers, no prefetch",
        [
            "parallel.pipeline=1",
            "parallel.data=2",
            "parallel.schedule=1f1b",
            GATHERED,
            "zero_optimization.prefetch_units=0",
        ],
    ),
    (
        "gathers, prefetch 1",
        [
            "parallel.pipeline=1",
            "parallel.data=2",
            "parallel.schedule=1f1b",
            GATHERED,
            "zero_optimization.prefetch_units=1",
        ],
    ),
    (
        "transfers, 1f1b",
        [
            "parallel.pipeline=2",
            "parallel.data=1",
            "parallel.schedule=1f1b",
            "zero_optimization.stage=0",
            WHOLE,
        ],
    ),
    (
        "transfers, eager-1f1b",
        [
            "parallel.pipeline=2",
            "parallel.data=1",
            "parallel.schedule=eager-1f1b",
            "zero_optimization.stage=0",
            WHOLE,
        ],
    ),
];
const GATHERED: &str = "zero_optimization.resident_units=strict";
const WHOLE: &str = "zero_optimization={}";

fn run_of(line: Line, settings: &[&str]) -> Run {
    let common = [
        "comm.links=null",
        "model.num_layers=8",
        "model.forward_ms=15",
        "model.backward_input_ms=15",
        "model.backward_weight_ms=15",
        "gradient_accumulation_steps=6",
        "threads=1",
    ];
    let sizes: &[&str] = match line {
        // Small enough to be one packet, so that TCP does not wait for an answer within a message.
        Line::Switch | Line::Late { .. } => &["model.parameters_per_layer=256"],
        // Some hundred packets, so that the rate counts and not what a message costs beside it.
        Line::Limited { .. } => &["model.parameters_per_layer=65536", "model.activation_elements=65536"],
    };
    example("timed-overlap.json", &[&common, sizes, settings].concat())
}

/// The interface that emulates a network line.
fn link(line: Line) -> Link {
    match line {
        Line::Switch => Link { latency: Duration::ZERO, bytes_per_s: f64::INFINITY },
        Line::Late { ms } => Link { latency: Duration::from_millis(ms), bytes_per_s: 1e9 },
        // The rate counts whole frames: 1448 bytes of a message in each frame of 1514.
        Line::Limited { mbit } => {
            Link { latency: Duration::ZERO, bytes_per_s: mbit as f64 * 1e6 / 8.0 * 1448.0 / 1514.0 }
        }
    }
}

/// What the simulator says of a step over links like the line. Gathers and reductions share it.
fn predicted_s(line: Line, run: &Run) -> f64 {
    let mut run = run.clone();
    let (near, far) = (link(line), link(line));
    run.comm.links = Some(Links { ranks_per_node: 1, near, far, shared: true });
    run.comm.backend = BackendName::Threads;
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let cpu = DeviceSpec::this_cpu();
    let simulation = Simulation::new(&plan, Source::Analytic(&cpu), None).expect("a prediction");
    simulation.step().step_s()
}

#[test]
#[ignore = "needs a job of two processes"]
fn steps_over_a_slow_line() {
    let _guard = EndOnPanic;
    let file = PathBuf::from(env::var_os(MEASURED).expect("a file"));
    let line = LINES[env::var(LINE).expect("a line").parse::<usize>().expect("its place")];
    let mut lines = String::new();
    for (name, settings) in CASES {
        let run = run_of(line, &settings);
        let predicted_s = predicted_s(line, &run);
        let plan = Plan::even_if_refused(run).expect("a valid run");
        let world = ProcessWorld::of_mpi(plan.run().comm.timeout, None).expect("a job");
        let mut engine = Engine::in_world(plan, Arc::new(Zeros), Arc::new(world)).expect("ranks start");
        let mut steps = [0.0; NUM_STEPS + 1];
        for step_s in &mut steps {
            *step_s = engine.train_batch().expect("a step").step_s;
        }
        let fastest = steps[1..].iter().copied().fold(f64::INFINITY, f64::min);
        lines += &format!("{name}\t{predicted_s}\t{fastest}\n");
        if engine.has_rank_0() {
            fs::write(&file, &lines).expect("a file");
        }
    }
}
