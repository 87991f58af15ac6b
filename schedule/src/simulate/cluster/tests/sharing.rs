//! Fair sharing against what can be worked out by hand.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::vec::Vec;

use proptest::prelude::*;

use crate::check::CheckedProgram;
use crate::generate::gpipe;
use crate::id::{PipelineRank, Stage};
use crate::instruction::Edge;
use crate::options::LowerOptions;
use crate::simulate::cluster::grid::ClusterLane;
use crate::simulate::cluster::grid::Grid;
use crate::simulate::cluster::load::Load;
use crate::simulate::cluster::progress::{Due, Progress};
use crate::simulate::cluster::sharing::Ports;
use crate::simulate::cluster::{Cluster, Duplex, Sharing};
use crate::testing::checked;

/// A message alone: when it is sent, and for how long it would occupy a link that it does not share.
#[derive(Clone, Copy, Debug)]
struct Flow {
    start: u64,
    ticks: u64,
}

fn flow(start: u64, ticks: u64) -> Flow {
    Flow { start, ticks }
}

/// A program with as many edge lanes as messages are needed.
fn program(num_ranks: u32) -> CheckedProgram {
    let order = gpipe(num_ranks, 1).unwrap();
    checked(&order, 1, &LowerOptions::ZERO_1)
}

/// When messages end that each go over a lane of their own, through these ports.
fn ends(flows: &[Flow], ports: &[&[u32]]) -> Vec<u64> {
    let program = program(1 + flows.len().div_ceil(2) as u32);
    let grid = Grid { program: &program, data_degree: 1 };
    let edges: Vec<ClusterLane> =
        grid.lanes().filter(|lane| matches!(lane, ClusterLane::Edge { .. })).take(flows.len()).collect();
    let by_lane: BTreeMap<_, _> = edges.iter().copied().zip(ports.iter().copied()).collect();
    let of_lane = |lane| by_lane.get(&lane).copied().into_iter().flatten().copied().collect();
    let mut load = Load::through(grid, &Cluster::alike(1), Ports::by::<u32>(grid, of_lane));
    let mut progress = Progress::new(load.num_works(), load.scale());
    for (number, flow) in flows.iter().enumerate() {
        progress.after(flow.start, Due::Arrival(number as u32));
    }
    let lanes: Vec<usize> = edges.iter().map(|&lane| grid.lane_index(lane)).collect();
    let mut ends = std::vec![0; flows.len()];
    while let Some(due) = progress.next() {
        let mut due = Some(due);
        while let Some(now) = due {
            match now {
                Due::Arrival(number) => {
                    load.begin_message(lanes[number as usize], &mut progress);
                    let work = load.lane_work(lanes[number as usize]);
                    progress.begin(work, flows[number as usize].ticks);
                }
                Due::Work(work) => {
                    let number =
                        lanes.iter().position(|&lane| load.lane_work(lane) == work as usize).unwrap();
                    load.end_message(lanes[number], &mut progress);
                    ends[number] = progress.now();
                }
                Due::Synchronization(_) => unreachable!("nobody meets"),
            }
            due = progress.next_now();
        }
        progress.settle(|work| load.rate(work));
    }
    ends
}

/// The same port for all.
fn ends_at_one_port(flows: &[Flow]) -> Vec<u64> {
    let ports: Vec<&[u32]> = flows.iter().map(|_| &[0][..]).collect();
    ends(flows, &ports)
}

#[test]
fn n_equal_messages_take_n_times_as_long() {
    for n in 1..=42 {
        for ticks in [1, 7, 1000, 1 << 40] {
            let flows = std::vec![flow(5, ticks); n];
            assert_eq!(ends_at_one_port(&flows), std::vec![5 + n as u64 * ticks; n], "{n} of {ticks}");
        }
    }
}

#[test]
fn whoever_joins_half_way_delays_and_is_delayed() {
    // The first has half left when the second comes; then that takes twice as long.
    assert_eq!(ends_at_one_port(&[flow(0, 100), flow(50, 100)]), [150, 200]);
    // A short one in between delays the long one by its own length.
    assert_eq!(ends_at_one_port(&[flow(0, 100), flow(20, 10)]), [110, 40]);
    // One that comes when the other has gone shares nothing.
    assert_eq!(ends_at_one_port(&[flow(0, 100), flow(100, 30)]), [100, 130]);
    // Odd halves end with the next tick: 1/2 of a tick is left at 3, which the other's end leaves alone.
    assert_eq!(ends_at_one_port(&[flow(0, 2), flow(1, 1)]), [3, 3]);
    assert_eq!(ends_at_one_port(&[flow(0, 3), flow(0, 2), flow(0, 1)]), [6, 5, 3]);
}

/// Of works t, 2 t, ..., n t that begin together, the k-th ends when all have done k t or all of their own.
#[test]
fn a_staircase_of_messages_ends_step_by_step() {
    for n in 1..=30_u64 {
        for t in [1, 3, 60] {
            let flows: Vec<Flow> = (1..=n).map(|k| flow(0, k * t)).collect();
            let expected: Vec<u64> = (1..=n).map(|k| t * (k * n - k * (k - 1) / 2)).collect();
            assert_eq!(ends_at_one_port(&flows), expected);
        }
    }
}

#[test]
fn the_most_crowded_port_decides() {
    let flows = std::vec![flow(0, 60); 6];
    // Three at port 0, two at port 1, four at port 2; the first is at all of them, the last at none.
    let ports: [&[u32]; 6] = [&[0, 1, 2], &[0, 2], &[0], &[1, 2], &[2], &[]];
    // At 60 the last is gone, at 180 the third (a third of port 0). The others are at port 2 until 240.
    assert_eq!(ends(&flows, &ports), [240, 240, 180, 240, 240, 60]);
    // Without the second and the fourth, who is at two ports is held up by the more crowded alone.
    assert_eq!(ends(&flows[..3], &[&[0, 1], &[0], &[1]]), [120, 120, 120]);
    assert_eq!(ends(&flows[..4], &[&[0, 1], &[0], &[1], &[1]]), [180, 120, 180, 180]);
}

/// 43 and more at a port: the multiple of all denominators is beyond the scale, and rates are rounded up. No
/// message is late for that, and none is early by a tick.
#[test]
fn a_larger_crowd_is_as_good_as_exact() {
    for n in [43, 64, 100] {
        let flows: Vec<Flow> = (1..=n).map(|k| flow(0, 1_000_000 * k)).collect();
        let expected: Vec<u64> = (1..=n).map(|k| 1_000_000 * (k * n - k * (k - 1) / 2)).collect();
        assert_eq!(ends_at_one_port(&flows), expected);
    }
}

proptest! {
    /// A port passes on a tick's worth each tick as long as it is given anything: whatever the order, a busy stretch
    /// ends when the sum of its works is done, or later by what ends lose to the next tick, less than one each.
    #[test]
    fn a_port_delivers_what_it_is_given(flows in prop::collection::vec((0_u64..200, 1_u64..60), 1..20)) {
        let flows: Vec<Flow> = flows.into_iter().map(|(start, ticks)| flow(start, ticks)).collect();
        let ends = ends_at_one_port(&flows);
        let mut by_start = flows.clone();
        by_start.sort_unstable_by_key(|flow| flow.start);
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for flow in by_start {
            match stretches.last_mut() {
                Some((_, end)) if flow.start < *end => *end += flow.ticks,
                _ => stretches.push((flow.start, flow.start + flow.ticks)),
            }
        }
        for (start, end) in stretches {
            let of_stretch = flows.iter().zip(&ends).filter(|(flow, _)| (start..end).contains(&flow.start));
            let last = of_stretch.map(|(_, end)| *end).max().unwrap();
            prop_assert!((end..end + flows.len() as u64).contains(&last), "{} to {}: {}", start, end, last);
        }
        // Nobody is faster than alone, nor slower than after all others.
        let total: u64 = flows.iter().map(|flow| flow.ticks).sum();
        for (flow, end) in flows.iter().zip(ends) {
            let (alone, last) = (flow.start + flow.ticks, flow.start + total + flows.len() as u64);
            prop_assert!((alone..last).contains(&end));
        }
    }
}

/// The lanes at each port, by name.
fn crowds(
    num_ranks: u32,
    data_degree: usize,
    ranks_per_node: u32,
    sharing: Sharing,
) -> Vec<Vec<ClusterLane>> {
    let program = program(num_ranks);
    let grid = Grid { program: &program, data_degree };
    let lanes: BTreeMap<usize, ClusterLane> =
        grid.lanes().map(|lane| (grid.lane_index(lane), lane)).collect();
    let ports = Ports::new(grid, sharing, NonZeroU32::new(ranks_per_node));
    let mut crowds: Vec<Vec<ClusterLane>> =
        ports.lanes.iter().map(|of| of.iter().map(|&lane| lanes[&(lane as usize)]).collect()).collect();
    crowds.sort_unstable();
    crowds
}

fn gather(rank: u32) -> ClusterLane {
    ClusterLane::Gather(PipelineRank(rank))
}

fn reduce(rank: u32) -> ClusterLane {
    ClusterLane::Reduce(PipelineRank(rank))
}

fn up(stage: u32, data_rank: u32) -> ClusterLane {
    ClusterLane::Edge { edge: Edge::Up(Stage(stage)), data_rank }
}

fn down(stage: u32, data_rank: u32) -> ClusterLane {
    ClusterLane::Edge { edge: Edge::Down(Stage(stage)), data_rank }
}

fn sorted(mut crowds: Vec<Vec<ClusterLane>>) -> Vec<Vec<ClusterLane>> {
    crowds.sort_unstable();
    crowds
}

#[test]
fn a_rank_shares_its_port_by_reach_and_way() {
    // Two pipeline ranks of two data ranks, each pair a node: collectives are near, edges far.
    let near = |rank| std::vec![gather(rank), reduce(rank)];
    let full = crowds(2, 2, 2, Sharing::RankPort(Duplex::Full));
    // Out and in of both data ranks of both; over each far port goes one message a way.
    assert_eq!(full, sorted([0, 0, 0, 0, 1, 1, 1, 1].map(near).to_vec()));
    let half = crowds(2, 2, 2, Sharing::RankPort(Duplex::Half));
    let far = |data_rank| std::vec![up(0, data_rank), down(0, data_rank)];
    let mut expected = [0, 0, 1, 1].map(near).to_vec();
    expected.extend([0, 0, 1, 1].map(far));
    assert_eq!(half, sorted(expected));
    // All on one node: everything is near, and what a rank sends is beside its gathers and reductions.
    let out = |rank: u32, data_rank: u32, edge: fn(u32, u32) -> ClusterLane| {
        std::vec![gather(rank), reduce(rank), edge(0, data_rank)]
    };
    let expected = (0..2).flat_map(|data_rank| {
        [out(0, data_rank, up), out(0, data_rank, down), out(1, data_rank, up), out(1, data_rank, down)]
    });
    assert_eq!(crowds(2, 2, 0, Sharing::RankPort(Duplex::Full)), sorted(expected.collect()));
}

#[test]
fn a_node_shares_its_port_among_far_messages() {
    // Two nodes of two ranks: each node's ranks send to the other's.
    let crowd = |edge: fn(u32, u32) -> ClusterLane| std::vec![edge(0, 0), edge(0, 1)];
    let full = crowds(2, 2, 2, Sharing::NodePort(Duplex::Full));
    // Out of the first node is into the second.
    assert_eq!(full, sorted(std::vec![crowd(up), crowd(up), crowd(down), crowd(down)]));
    let half = crowds(2, 2, 2, Sharing::NodePort(Duplex::Half));
    let both = std::vec![up(0, 0), up(0, 1), down(0, 0), down(0, 1)];
    assert_eq!(half, std::vec![both.clone(), both]);
    // Four data ranks on two nodes: a gather passes the ports of both nodes, once each and both ways.
    let far = std::vec![gather(0), reduce(0)];
    assert_eq!(crowds(1, 4, 2, Sharing::NodePort(Duplex::Full)), std::vec![far; 4]);
    assert_eq!(crowds(2, 2, 0, Sharing::NodePort(Duplex::Full)), Vec::<Vec<ClusterLane>>::new());
}
