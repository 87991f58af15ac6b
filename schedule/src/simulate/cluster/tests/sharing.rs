//! Fair sharing against what can be worked out by hand.

use std::vec::Vec;

use proptest::prelude::*;

use crate::generate::gpipe;
use crate::options::LowerOptions;
use crate::simulate::cluster::Cluster;
use crate::simulate::cluster::grid::{ClusterLane, Grid};
use crate::simulate::cluster::load::Load;
use crate::simulate::cluster::progress::{Due, Progress};
use crate::simulate::cluster::sharing::Ports;
use crate::testing::checked;

/// A message: when it is sent, and for how many ticks it would occupy a link that it does not share.
type Flow = (u64, u64);

/// When messages end that each go over a lane of their own, through these ports.
fn ends(flows: &[Flow], ports: &[&[u32]]) -> Vec<u64> {
    let order = gpipe(1 + flows.len().div_ceil(2) as u32, 1).unwrap();
    let program = checked(&order, 1, &LowerOptions::ZERO_1);
    let grid = Grid { program: &program, data_degree: 1 };
    let edges = grid.lanes().filter(|lane| matches!(lane, ClusterLane::Edge { .. }));
    let lanes: Vec<usize> = edges.map(|lane| grid.lane_index(lane)).collect();
    let ports_of = |lane| {
        let flow = lanes.iter().position(|&of| of == grid.lane_index(lane));
        flow.and_then(|flow| ports.get(flow)).into_iter().copied().flatten().copied().collect()
    };
    let mut load = Load::new(grid, &Cluster::alike(1), Ports::by::<u32>(grid, ports_of));
    let mut progress = Progress::new(load.num_works(), load.scale());
    for (number, &(start, _)) in flows.iter().enumerate() {
        progress.after(start, Due::Arrival(number as u32));
    }
    let mut ends = std::vec![0; flows.len()];
    while let Some(due) = progress.next(u64::MAX) {
        match due {
            Due::Arrival(number) => {
                let lane = lanes[number as usize];
                load.begin_message(lane, &mut progress);
                progress.begin(load.lane_work(lane), flows[number as usize].1);
            }
            Due::Work(work) => {
                let number = lanes.iter().position(|&lane| load.lane_work(lane) == work as usize).unwrap();
                load.end_message(lanes[number], &mut progress);
                ends[number] = progress.now();
            }
            Due::Synchronization(_) => unreachable!("there are only messages"),
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
            let flows = std::vec![(5, ticks); n];
            assert_eq!(ends_at_one_port(&flows), std::vec![5 + n as u64 * ticks; n], "{n} of {ticks}");
        }
    }
}

#[test]
fn a_message_that_begins_half_way_delays_and_is_delayed() {
    // Half of the first is left when the second begins, and from then on each is half as fast.
    assert_eq!(ends_at_one_port(&[(0, 100), (50, 100)]), [150, 200]);
    // A short one in between delays the long one by its own length.
    assert_eq!(ends_at_one_port(&[(0, 100), (20, 10)]), [110, 40]);
    // One that begins when the other has ended shares nothing.
    assert_eq!(ends_at_one_port(&[(0, 100), (100, 30)]), [100, 130]);
    // Odd halves end with the next tick: 1/2 of a tick is left at 3, which the other's end leaves alone.
    assert_eq!(ends_at_one_port(&[(0, 2), (1, 1)]), [3, 3]);
    assert_eq!(ends_at_one_port(&[(0, 3), (0, 2), (0, 1)]), [6, 5, 3]);
}

/// Of works t, 2 t, ..., n t that begin together, the k-th ends when all have done k t or all of their own. With 43 and more,
/// the multiple of all denominators is beyond the scale, and rates are rounded up: no message is late for that, and none is
/// early by a tick.
#[test]
fn a_staircase_of_messages_ends_step_by_step() {
    let small = (1..=30_u64).flat_map(|n| [1, 3, 60].map(|t| (n, t)));
    for (n, t) in small.chain([43, 64, 100].map(|n| (n, 1_000_000))) {
        let flows: Vec<Flow> = (1..=n).map(|k| (0, k * t)).collect();
        let expected: Vec<u64> = (1..=n).map(|k| t * (k * n - k * (k - 1) / 2)).collect();
        assert_eq!(ends_at_one_port(&flows), expected);
    }
}

#[test]
fn the_most_crowded_port_decides() {
    let flows = std::vec![(0, 60); 6];
    // Three at port 0, two at port 1, four at port 2; the first is at all of them, the last at none.
    let ports: [&[u32]; 6] = [&[0, 1, 2], &[0, 2], &[0], &[1, 2], &[2], &[]];
    // At 60 the last is gone, at 180 the third (a third of port 0). The others are at port 2 until 240.
    assert_eq!(ends(&flows, &ports), [240, 240, 180, 240, 240, 60]);
    // Without the second and the fourth, a message at two ports is held up by the more crowded alone.
    assert_eq!(ends(&flows[..3], &[&[0, 1], &[0], &[1]]), [120, 120, 120]);
    assert_eq!(ends(&flows[..4], &[&[0, 1], &[0], &[1], &[1]]), [180, 120, 180, 180]);
}

proptest! {
    /// A port transmits one tick's worth of work in each tick in which it has any. So whatever the order, a busy stretch ends
    /// when the sum of its works is done, or later by what is lost by rounding ends up to the next tick: less than one each.
    #[test]
    fn a_port_delivers_what_it_is_given(flows in prop::collection::vec((0_u64..200, 1_u64..60), 1..20)) {
        let ends = ends_at_one_port(&flows);
        let mut by_start = flows.clone();
        by_start.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (start, ticks) in by_start {
            match stretches.last_mut() {
                Some((_, end)) if start < *end => *end += ticks,
                _ => stretches.push((start, start + ticks)),
            }
        }
        for (start, end) in stretches {
            let of_stretch = flows.iter().zip(&ends).filter(|((begin, _), _)| (start..end).contains(begin));
            let last = of_stretch.map(|(_, end)| *end).max().unwrap();
            prop_assert!((end..end + flows.len() as u64).contains(&last), "{} to {}: {}", start, end, last);
        }
        // None is faster than alone, nor slower than after all others.
        let total: u64 = flows.iter().map(|(_, ticks)| ticks).sum();
        for ((start, ticks), end) in flows.iter().zip(ends) {
            prop_assert!((start + ticks..start + total + flows.len() as u64).contains(&end));
        }
    }
}
