//! Clusters: data ranks that are alike equal the one of a step; an edge is near for some data ranks and far for others.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

use std::num::NonZeroU32;

use super::ClusterStep;
use crate::Plan;
use crate::costs::{DeviceSpec, Predicted, Source, Step, for_plan};
use crate::testing::{GPT2, TIMED, plan};

fn predicted(plan: &Plan) -> Predicted {
    for_plan(plan, Source::Analytic(&DeviceSpec::by_name("h100").unwrap())).unwrap()
}

#[test]
fn data_ranks_that_are_alike_equal_the_one_of_a_step() {
    for (file, changes) in [
        (GPT2, "parallel.data=3"),
        (GPT2, "zero_optimization.stage=1 parallel.schedule=zb-h1"),
        (TIMED, "parallel.data=2"),
    ] {
        let plan = plan(file, changes);
        let predicted = predicted(&plan);
        let step = Step::new(&plan, &predicted).unwrap();
        let cluster = ClusterStep::new(&plan, &predicted, &predicted.cluster(&plan)).unwrap();
        assert!(cluster.is_alike() && cluster.by_data_rank().iter().all(|of| *of == step), "{changes}");
        assert_eq!(cluster.bubble_rate().to_bits(), step.bubble_rate().to_bits());
        assert_eq!(
            (cluster.slowest_data_rank(), cluster.slowest_of_pipeline_rank(1)),
            (0, (0, &step.ranks[1]))
        );
    }
}

/// Two stages on three data ranks, nodes of four: ranks 0 and 3 are on one node, 1 and 4 on two, as are 2 and 5.
#[test]
fn an_edge_is_near_where_its_ranks_share_a_node() {
    let of = |per_node: u32| {
        let links = format!(
            r#"{{"ranks_per_node":{per_node},"near":{{"latency_us":1000,"gb_per_s":1}},"far":{{"latency_us":4000}}}}"#
        );
        plan(TIMED, &format!("comm.links={links} parallel.pipeline=2 parallel.data=3"))
    };
    let mixed = of(4);
    let predicted_mixed = predicted(&mixed);
    assert_eq!(predicted_mixed.ranks_per_node, NonZeroU32::new(4));
    let edges = predicted_mixed.edges_by_reach.as_ref().unwrap();
    assert_eq!(edges.near.iter().map(|edge| edge.latency).collect::<Vec<_>>(), [1_000_000; 2]);
    assert_eq!(edges.far.iter().map(|edge| edge.latency).collect::<Vec<_>>(), [4_000_000; 2]);
    // A step of one data rank has the costs of the slowest, and takes as long.
    assert_eq!(predicted_mixed.costs.edges, edges.far);
    let step = Step::new(&mixed, &predicted_mixed).unwrap();
    let cluster = ClusterStep::new(&mixed, &predicted_mixed, &predicted_mixed.cluster(&mixed)).unwrap();
    let spans: Vec<u64> = cluster.by_data_rank().iter().map(|of| of.longest_rank_span_ns).collect();
    assert!(spans[0] < spans[1] && spans[1] == spans[2], "{spans:?}");
    assert_eq!(
        (cluster.slowest_data_rank(), cluster.slowest().longest_rank_span_ns),
        (1, step.longest_rank_span_ns)
    );
    assert_eq!(cluster.slowest().makespan_ns, step.makespan_ns);
    assert!(!cluster.is_alike());
    // All far, or all near: one price is enough.
    for per_node in [3, 6] {
        assert_eq!(predicted(&of(per_node)).edges_by_reach, None, "{per_node}");
    }
}
