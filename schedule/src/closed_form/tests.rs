//! Closed forms against orders that are played.

use alloc::collections::BTreeMap;
use std::vec::Vec;

use super::*;
use crate::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::testing::assert_makespans_are_closed_forms;

/// When the last action ends, by playing the order: an action starts when its rank is free and its operands are there,
/// a hop after they were made where that is another rank.
fn makespan(order: &ComputeOrder, times: StageTimes) -> u64 {
    let last = order.placement.num_stages() as u32 - 1;
    let mut ends: BTreeMap<(bool, u32, u32), u64> = BTreeMap::new();
    let mut free = vec![0; order.rows.len()];
    let mut next = vec![0; order.rows.len()];
    let rank = |stage: u32| order.placement.rank(crate::Stage(stage)).index();
    loop {
        let mut progressed = false;
        for row in 0..order.rows.len() {
            while let Some(&action) = order.rows[row].get(next[row]) {
                let arrivals = operands(&action, last).into_iter().map(|operand| {
                    let hop = if rank(operand.1) == row { 0 } else { times.hop };
                    Some(ends.get(&operand)? + hop)
                });
                let Some(arrivals) = arrivals.collect::<Option<Vec<u64>>>() else { break };
                let is_backward = action.kind != ComputeKind::Forward;
                let duration = if is_backward { times.backward } else { times.forward };
                free[row] = arrivals.into_iter().fold(free[row], u64::max) + duration;
                ends.insert((is_backward, action.stage.0, action.micro_batch.0), free[row]);
                next[row] += 1;
                progressed = true;
            }
        }
        if !progressed {
            break;
        }
    }
    assert!(order.rows.iter().zip(next).all(|(row, next)| row.len() == next), "the order ends");
    free.into_iter().max().unwrap_or(0)
}

/// What an action reads: whether a gradient, of which stage and micro-batch.
fn operands(action: &StageAction, last: u32) -> Vec<(bool, u32, u32)> {
    let (stage, micro_batch) = (action.stage.0, action.micro_batch.0);
    match action.kind {
        ComputeKind::Forward if stage == 0 => vec![],
        ComputeKind::Forward => vec![(false, stage - 1, micro_batch)],
        _ if stage == last => vec![(false, stage, micro_batch)],
        _ => vec![(true, stage + 1, micro_batch), (false, stage, micro_batch)],
    }
}

fn times(forward: u64, backward: u64, hop: u64) -> StageTimes {
    StageTimes { forward, backward, hop }
}

#[test]
fn makespans_are_what_playing_the_orders_gives() {
    assert_makespans_are_closed_forms(makespan);
}

/// p = 4, m = 8, T_F = 1, T_B = 2 for a whole rank, in `v`-ths.
#[test]
fn the_worked_numbers() {
    // The second makespan has a hop as long as a forward: interleaving loses to 1F1B, which loses to its eager form.
    for (order, v, makespans) in [
        (gpipe(4, 8), 1, [33.0, 39.0]),
        (one_f_one_b(4, 8), 1, [33.0, 49.0]),
        (eager_1f1b(4, 8), 1, [33.0, 39.0]),
        (interleaved(4, 2, 8, 4), 2, [28.5, 46.0]),
        (interleaved(4, 4, 8, 4), 4, [26.25, 69.0]),
        (bfs(4, 2, 8), 2, [28.5, 36.5]),
        (bfs(4, 4, 8), 4, [26.25, 47.25]),
    ] {
        let order = order.unwrap();
        let played = [0, 1].map(|hop| makespan(&order, times(1, 2, v * hop)) as f64 / v as f64);
        assert_eq!(played, makespans);
    }
}

#[test]
fn bubbles_are_what_playing_the_orders_gives() {
    for (p, m, backward) in
        (1..=5).flat_map(|p| (1..=12).flat_map(move |m| [1, 2, 3].map(|backward| (p, m, backward))))
    {
        let share = |order: ComputeOrder, v: u32| {
            let busy = u64::from(m * v) * (1 + backward);
            1.0 - busy as f64 / makespan(&order, times(1, backward, 0)) as f64
        };
        // Two roundings of f64 on either side.
        let equal =
            |played: f64, form: f64| assert!((played - form).abs() < 1e-15, "p {p}, m {m}, {backward}");
        for order in [gpipe(p, m).unwrap(), one_f_one_b(p, m).unwrap(), eager_1f1b(p, m).unwrap()] {
            equal(share(order, 1), bubble_share(p, m));
        }
        for v in 2..=4 {
            equal(share(bfs(p, v, m).unwrap(), v), looped_bubble_share(p, v, m));
            // The groups' size does not matter, nor that the last one may be longer.
            for group_size in [p, p + 1, 2 * p + 1, m.max(p)] {
                let order = interleaved(p, v, m, group_size).unwrap();
                equal(share(order, v), looped_bubble_share(p, v, m));
            }
        }
    }
}
