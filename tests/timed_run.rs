//! The timed family through plan, engine and training: what studies of overlap run on.

use std::sync::atomic::AtomicBool;

use pipezero::Plan;
use pipezero::config::{Run, RunFile, World};
use pipezero::training::{EvalLine, Observer, RunDir, StepLine, Training};
use safetensors::SafeTensors;
use serde_json::json;

/// The example, with times as short as can be where `arguments` say so.
fn example(arguments: &[&str]) -> Run {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/timed-overlap.json");
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let file = RunFile::load(path.as_ref()).and_then(|file| file.set(&arguments)).expect("well-formed");
    file.resolve(World::this_host()).expect("the example is valid").0
}

#[test]
fn the_example_is_planned_with_as_many_gathers_as_units_are_used() {
    let plan = Plan::new(example(&[])).expect("a valid run");
    assert!(plan.run().comm.links.is_some(), "it imitates links");
    // 48 layers over 4 stages in units of 2: 6 units, each used twice by each of 8 micro-batches; timed layers read their
    // weights in both.
    for rank in plan.forecast() {
        assert_eq!((rank.units.len(), rank.traffic.all_gather.count), (6, 2 * 8 * 6), "rank {}", rank.rank);
        assert_eq!(rank.traffic.reduce_scatter.count, 8 * 6, "rank {}", rank.rank);
    }
}

#[derive(Default)]
struct Lines(Vec<StepLine>);

impl Observer for Lines {
    fn step(&mut self, line: &StepLine) {
        self.0.push(line.clone());
    }

    fn evaluation(&mut self, _: &EvalLine) {
        panic!("there is no validation text");
    }
}

/// A timed layer computes nothing: one nat per target, gradients of zero, and weights that stay at zero. What ranks hold
/// and send is as planned all the same.
#[test]
fn a_timed_run_holds_and_sends_what_is_planned_and_learns_nothing() {
    for schedule in ["1f1b", "interleaved"] {
        let virtual_stages = if schedule == "interleaved" { 2 } else { 1 };
        let run = example(&[
            "model.num_layers=16",
            "model.forward_ms=0.02",
            "model.backward_input_ms=0.02",
            "model.backward_weight_ms=0.02",
            "zero_optimization.unit_layers=1",
            "steps=2",
            &format!("parallel.schedule={schedule}"),
            &format!("parallel.virtual_stages={virtual_stages}"),
        ]);
        let home = tempfile::tempdir().expect("a temporary folder");
        let directory = RunDir::create(&home.path().join("run"), false).expect("a new folder");
        let training = Training::new(Plan::new(run).expect("a valid run")).expect("the ranks start");
        let mut lines = Lines::default();
        let summary = training.run(&directory, &AtomicBool::new(false), &mut lines).expect("it ends well");

        assert_eq!(lines.0.len(), 2);
        for line in &lines.0 {
            // 8 micro-batches of one sequence of 16 tokens, twice.
            assert_eq!((line.loss, line.grad_norm, line.tokens), (Some(1.0), Some(0.0), 256), "{schedule}");
        }
        for (measured, planned) in summary.ranks.iter().zip(&summary.planned) {
            assert_eq!(json!(measured.memory), json!(planned.memory), "rank {} of {schedule}", planned.rank);
            assert_eq!(measured.traffic, planned.traffic, "rank {} of {schedule}", planned.rank);
        }
        let weights = std::fs::read(directory.file(RunDir::WEIGHTS)).expect("weights are saved");
        let weights = SafeTensors::deserialize(&weights).expect("a safetensors file");
        assert_eq!(weights.len(), 16);
        assert!(weights.tensors().iter().all(|(_, view)| view.data().iter().all(|&byte| byte == 0)));
    }
}
