//! Clusters: data ranks that are alike equal the one of a step; an edge is near for some data ranks and far for others.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

use std::num::NonZeroU32;

use super::{ClusterStep, Simulation};
use crate::Plan;
use crate::costs::{DeviceSpec, Network, NetworkLink, Predicted, Source, Step, for_plan};
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

/// A CPU of so many cores whose messages and memory cost nothing.
fn cpu(num_cores: usize) -> DeviceSpec {
    let link = NetworkLink { bytes_per_s: f64::INFINITY, base_ns: 0.0, step_ns: 0.0 };
    let of_host = DeviceSpec::this_cpu();
    let network = Network { near: link, far: link, ..of_host.network };
    DeviceSpec { cores: Some(num_cores), memory_bytes_per_s: f64::INFINITY, network, ..of_host }
}

fn simulated_ns(plan: &Plan, num_cores: usize) -> u64 {
    Simulation::new(plan, Source::Analytic(&cpu(num_cores)), None).unwrap().step().makespan_ns
}

/// Four data ranks compute at once all the time: on two cores they take twice as long, on one four times.
#[test]
fn ranks_beyond_the_cores_share_them() {
    let plan = plan(GPT2, "parallel.pipeline=1 parallel.data=4");
    let alone = simulated_ns(&plan, 4);
    assert_eq!(simulated_ns(&plan, 400), alone);
    for (num_cores, times) in [(2, 2), (1, 4)] {
        // Each end is rounded up to a whole nanosecond.
        let (found, expected) = (simulated_ns(&plan, num_cores), times * alone);
        assert!(found.abs_diff(expected) < expected / 1000, "{num_cores}: {found}, not {expected}");
    }
}

/// A rank that waits leaves its core to the other: on one core the pipeline has no bubble, and takes what both ranks compute.
#[test]
fn a_rank_that_waits_leaves_its_core_to_others() {
    let plan = plan(GPT2, "parallel.data=1");
    let device = cpu(2);
    let two = Simulation::new(&plan, Source::Analytic(&device), None).unwrap();
    let computed: u64 = two.step().ranks.iter().map(|rank| rank.busy_ns).sum();
    assert!(computed < 2 * two.step().makespan_ns * 9 / 10, "the pipeline has a bubble on two cores");
    let found = simulated_ns(&plan, 1);
    assert!(found.abs_diff(computed) < computed / 100, "{found}, not {computed}");
}

#[test]
fn hosts_have_the_cores_of_this_one_each() {
    let of = |more: &str| plan(GPT2, &format!("parallel.pipeline=1 parallel.data=4 {more}"));
    let two_hosts = of("comm.ranks_per_node=2");
    assert_eq!(simulated_ns(&two_hosts, 2), simulated_ns(&of(""), 4));
}

#[test]
fn the_peak_of_a_cpu_is_not_known() {
    let plan = plan(GPT2, "");
    let mfu = |device: &DeviceSpec| {
        Simulation::new(&plan, Source::Analytic(device), None).unwrap().utilisation().mfu()
    };
    assert_eq!(mfu(&cpu(2)), None);
    assert!(mfu(&DeviceSpec::by_name("h100").unwrap()).is_some());
}
