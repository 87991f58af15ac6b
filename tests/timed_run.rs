//! The timed family through plan, engine and training: what studies of overlap run on.

use std::sync::Arc;

use pipezero_config::Run;
use pipezero_plan::Plan;
use pipezero_plan::Volume;
use pipezero_run::data::Zeros;
use pipezero_run::engine::Engine;
use pipezero_train::RunDir;
use safetensors::SafeTensors;
use tests::{assert_as_planned, example, train_into};

const OVERLAP: &str = "timed-overlap.json";

#[test]
fn the_example_is_planned_with_as_many_gathers_as_units_are_used() {
    let plan = Plan::new(example(OVERLAP, &[])).expect("a valid run");
    assert!(plan.run().comm.links.is_some(), "it emulates links");
    // 48 layers over 4 stages in units of 2: 6 units, each used twice by each of 8 micro-batches; timed layers read their
    // weights in both.
    for rank in plan.forecast() {
        assert_eq!((rank.units.len(), rank.traffic.all_gather.count), (6, 2 * 8 * 6), "rank {}", rank.rank);
        assert_eq!(rank.traffic.reduce_scatter.count, 8 * 6, "rank {}", rank.rank);
    }
}

/// A timed layer computes nothing: one nat per target, gradients of zero, and weights that stay at zero. What ranks hold
/// and send is as planned all the same.
#[test]
fn a_timed_run_holds_and_sends_what_is_planned_and_learns_nothing() {
    for schedule in ["1f1b", "interleaved"] {
        let virtual_stages = if schedule == "interleaved" { 2 } else { 1 };
        let run = example(
            OVERLAP,
            &[
                "model.num_layers=16",
                "model.forward_ms=0.02",
                "model.backward_input_ms=0.02",
                "model.backward_weight_ms=0.02",
                "zero_optimization.unit_layers=1",
                "steps=2",
                &format!("parallel.schedule={schedule}"),
                &format!("parallel.virtual_stages={virtual_stages}"),
            ],
        );
        let home = tempfile::tempdir().expect("a temporary folder");
        let plan = Plan::new(run).expect("a valid run");
        let (directory, summary, lines) = train_into(&home.path().join("run"), plan);

        assert_eq!((lines.len(), summary.validation_loss), (2, None));
        for line in &lines {
            // 8 micro-batches of one sequence of 16 tokens, twice.
            assert_eq!((line.loss, line.grad_norm, line.tokens), (Some(1.0), Some(0.0), 256), "{schedule}");
        }
        assert_as_planned(&summary.ranks, &summary.planned, schedule);
        let weights = std::fs::read(directory.file(RunDir::WEIGHTS)).expect("weights are saved");
        let weights = SafeTensors::deserialize(&weights).expect("a safetensors file");
        assert_eq!(weights.len(), 16);
        assert!(weights.tensors().iter().all(|(_, view)| view.data().iter().all(|&byte| byte == 0)));
    }
}

/// The largest example, on 64 ranks: what every one of them holds and sends is planned, and by hand. 3 units of 64 KiB for
/// each of 32 micro-batches, gathered twice and reduced once; a rank sends its quarter of a unit to 3 peers, and 1 KiB of
/// activations and of gradients over each edge.
#[test]
fn sixty_four_ranks_send_what_is_worked_out_by_hand() {
    let short = ["model.forward_ms=0", "model.backward_input_ms=0", "model.backward_weight_ms=0"];
    let run = Run { steps: 1, ..example("timed-64.json", &short) };
    let plan = Plan::new(run).expect("a valid run");
    let (num_ranks, planned) = (plan.grid().world_size(), plan.forecast());
    assert_eq!((num_ranks, planned.len()), (64, 64));
    let mut engine = Engine::new(plan, Arc::new(Zeros)).expect("ranks start");
    let report = engine.train_batch().expect("a step");
    assert_as_planned(&report.measured(), &planned, "timed-64.json");
    for (measured, planned) in report.measured().iter().zip(&planned) {
        let of = |count: u64, each: u64| Volume { count, bytes: count * each };
        let is_end = planned.pipeline_rank % 15 == 0;
        assert_eq!(measured.traffic.all_gather, of(2 * 32 * 3, 3 * 16 * 1024), "rank {}", planned.rank);
        assert_eq!(measured.traffic.reduce_scatter, of(32 * 3, 3 * 16 * 1024), "rank {}", planned.rank);
        assert_eq!(measured.traffic.send, of(if is_end { 32 } else { 64 }, 1024), "rank {}", planned.rank);
    }
}
