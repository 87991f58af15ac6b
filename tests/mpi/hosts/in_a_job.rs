//! What each of two processes runs between which there is a line that delivers late.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use pipezero::Simulation;
use pipezero::config::{BackendName, Run};
use pipezero::plan::costs::{DeviceSpec, Source};
use pipezero::plan::{Plan, Purpose};
use pipezero::run::data::Zeros;
use pipezero::run::engine::Engine;
use pipezero::run::world::MpiWorld;
use tests::{EndOnPanic, example};

/// The file for what is measured.
pub(super) const MEASURED: &str = "PIPEZERO_TEST_MEASURED";
/// Of a message, milliseconds.
pub(super) const LATE_MS: u64 = 20;
/// Steps that are measured, after one that is not.
const NUM_STEPS: usize = 3;

/// Runs that differ in whether something hides that messages are late: their names, and what is set.
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

fn run_of(settings: &[&str]) -> Run {
    let common = [
        "comm.links=null",
        "model.num_layers=8",
        // Small enough to be one packet, so that TCP does not wait for an answer within a message.
        "model.parameters_per_layer=256",
        "model.forward_ms=15",
        "model.backward_input_ms=15",
        "model.backward_weight_ms=15",
        "gradient_accumulation_steps=6",
        "threads=1",
    ];
    example("timed-overlap.json", &[&common, settings].concat())
}

/// What the simulator says of a step over links that are as late.
fn predicted_s(run: &Run) -> f64 {
    let link =
        pipezero::config::Link { latency: std::time::Duration::from_millis(LATE_MS), bytes_per_s: 1e9 };
    let mut run = run.clone();
    run.comm.links =
        Some(pipezero::config::Links { ranks_per_node: 1, near: link, far: link, shared: false });
    run.comm.backend = BackendName::Threads;
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let cpu = DeviceSpec::this_cpu();
    let simulation = Simulation::new(&plan, Source::Analytic(&cpu), None).expect("a prediction");
    simulation.step().step_s()
}

#[test]
#[ignore = "needs a job of two processes"]
fn steps_over_a_late_line() {
    let _guard = EndOnPanic;
    let file = PathBuf::from(env::var_os(MEASURED).expect("a file"));
    let mut lines = String::new();
    for (name, settings) in CASES {
        let run = run_of(&settings);
        let predicted_s = predicted_s(&run);
        let plan = Plan::even_if_refused(run).expect("a valid run");
        let world = MpiWorld::of_job(plan.run().comm.timeout, None).expect("a job");
        let mut engine =
            Engine::in_world(plan, Arc::new(Zeros), Purpose::Training, Arc::new(world)).expect("ranks start");
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
