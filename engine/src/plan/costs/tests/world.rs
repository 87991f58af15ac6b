//! Worlds: data ranks that are alike are those of a step; edges are near for some data ranks and far for others.

use std::num::NonZeroU32;

use super::{GPT2, TIMED, plan};
use crate::plan::Plan;
use crate::plan::costs::{Device, Predicted, Source, Step, WorldStep, for_plan};

fn predicted(plan: &Plan) -> Predicted {
    for_plan(plan, Source::Analytic(&Device::by_name("h100").unwrap())).unwrap()
}

#[test]
fn alike_data_ranks_are_those_of_a_step() {
    for (file, changes) in [
        (GPT2, &["parallel.data=3"][..]),
        (GPT2, &["zero_optimization.stage=1", "parallel.schedule=zb-h1"]),
        (TIMED, &["parallel.data=2"]),
    ] {
        let plan = plan(file, changes);
        let predicted = predicted(&plan);
        let step = Step::new(&plan, &predicted).unwrap();
        let world = WorldStep::new(&plan, &predicted, &predicted.world(&plan)).unwrap();
        assert!(world.is_alike() && world.by_data_rank().iter().all(|of| *of == step), "{changes:?}");
        assert_eq!(world.bubble_rate().to_bits(), step.bubble_rate().to_bits());
        assert_eq!((world.slowest_data_rank(), world.slowest_of_pipeline_rank(1)), (0, (0, &step.ranks[1])));
    }
}

/// Two stages on three data ranks, nodes of four: ranks 0 and 3 are on one node, 1 and 4 on two, as are 2 and 5.
#[test]
fn an_edge_is_near_where_its_ranks_are() {
    let links = |per_node: u32| {
        [
            format!(
                "comm.links={{\"ranks_per_node\":{per_node},\"near\":{{\"latency_us\":1000,\"gb_per_s\":1}},\"far\":{{\"latency_us\":4000}}}}"
            ),
            "parallel.pipeline=2".to_owned(),
            "parallel.data=3".to_owned(),
        ]
    };
    let of = |per_node: u32| {
        let changes = links(per_node);
        plan(TIMED, &changes.each_ref().map(String::as_str))
    };
    let mixed = of(4);
    let predicted_mixed = predicted(&mixed);
    assert_eq!(predicted_mixed.ranks_per_node, NonZeroU32::new(4));
    let edges = predicted_mixed.edges_by_reach.as_ref().unwrap();
    assert_eq!(edges.near.iter().map(|edge| edge.latency).collect::<Vec<_>>(), [1_000_000; 2]);
    assert_eq!(edges.far.iter().map(|edge| edge.latency).collect::<Vec<_>>(), [4_000_000; 2]);
    // Where one data rank stands for all it is the slowest, and the step takes as long.
    assert_eq!(predicted_mixed.costs.edges, edges.far);
    let step = Step::new(&mixed, &predicted_mixed).unwrap();
    let world = WorldStep::new(&mixed, &predicted_mixed, &predicted_mixed.world(&mixed)).unwrap();
    let spans: Vec<u64> = world.by_data_rank().iter().map(|of| of.longest_rank_span_ns).collect();
    assert!(spans[0] < spans[1] && spans[1] == spans[2], "{spans:?}");
    assert_eq!(
        (world.slowest_data_rank(), world.slowest().longest_rank_span_ns),
        (1, step.longest_rank_span_ns)
    );
    assert_eq!(world.slowest().makespan_ns, step.makespan_ns);
    assert!(!world.is_alike());
    // All far, or all near: nothing to tell apart.
    for per_node in [3, 6] {
        assert_eq!(predicted(&of(per_node)).edges_by_reach, None, "{per_node}");
    }
}
