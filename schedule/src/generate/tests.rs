//! Generators against their closed forms and pictures.

use alloc::string::ToString;
use alloc::vec::Vec;

use expect_test::expect;

use super::{
    SizeError, bfs, eager_1f1b, forward_only, forward_only_on, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2,
    zb_v,
};
use crate::closed_form::{
    eager_1f1b_in_flight, interleaved_in_flight, one_f_one_b_in_flight, zb_h1_in_flight, zb_h2_in_flight,
};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::order::{ComputeKind, ComputeOrder};
use crate::placement::Placement;
use crate::render;

type Generator = fn(u32, u32) -> Result<ComputeOrder, SizeError>;

const ONE_STAGE_EACH: [Generator; 4] = [gpipe, one_f_one_b, eager_1f1b, forward_only];

const SPLIT: [Generator; 3] = [zb_h1, zb_h2, zb_v];

/// Every order of up to these sizes: all generators, all group sizes from the pipeline's length to past the step's.
fn all_orders(ranks_max: u32, virtual_max: u32, micro_batches_max: u32) -> Vec<ComputeOrder> {
    let mut orders = Vec::new();
    for (p, m) in (1..=ranks_max).flat_map(|p| (1..=micro_batches_max).map(move |m| (p, m))) {
        orders.extend(ONE_STAGE_EACH.map(|generate| generate(p, m).unwrap()));
        for v in 2..=virtual_max {
            orders.push(bfs(p, v, m).unwrap());
            orders.extend((p..=m.max(p) + 1).map(|group| interleaved(p, v, m, group).unwrap()));
            orders.push(forward_only_on(&Placement::looped(p, v).unwrap(), m).unwrap());
        }
    }
    orders
}

#[test]
fn every_stage_runs_each_part_of_each_micro_batch_once_and_in_ascending_order() {
    use ComputeKind::{Backward, BackwardInput, BackwardWeight, Forward};
    let sizes = (1..=5).flat_map(|p| (1..=12).map(move |m| (p, m)));
    let split = sizes.flat_map(|(p, m)| SPLIT.map(|generate| generate(p, m).unwrap()));
    for order in all_orders(5, 3, 9).into_iter().chain(split) {
        assert!(order.is_ascending());
        let ascending: Vec<_> = (0..order.num_micro_batches).map(MicroBatch).collect();
        let kinds: &[ComputeKind] = match (order.has_backward(), order.first_half()) {
            (false, _) => &[Forward],
            (true, None) => &[Forward, Backward],
            (true, Some(_)) => &[Forward, BackwardInput, BackwardWeight],
        };
        let num_stages = order.placement.num_stages();
        for stage in (0..num_stages as u32).map(Stage) {
            let row = &order.rows[order.placement.rank(stage).index()];
            for &kind in kinds {
                let here = row.iter().filter(|action| action.kind == kind && action.stage == stage);
                let ran: Vec<_> = here.map(|action| action.micro_batch).collect();
                assert_eq!(ran, ascending, "{}", order.to_csv());
            }
        }
        let num_actions = order.rows.iter().map(Vec::len).sum::<usize>();
        assert_eq!(num_actions, kinds.len() * num_stages * ascending.len(), "nothing on another rank");
    }
}

#[test]
fn in_flight_equals_the_closed_forms() {
    for (p, m) in (1..=6).flat_map(|p| (1..=12).map(move |m| (p, m))) {
        for stage in (0..p).map(Stage) {
            let in_flight = |order: ComputeOrder| order.in_flight(stage) as u32;
            assert_eq!(in_flight(one_f_one_b(p, m).unwrap()), one_f_one_b_in_flight(p, m, stage));
            assert_eq!(in_flight(eager_1f1b(p, m).unwrap()), eager_1f1b_in_flight(p, m, stage));
            assert_eq!(in_flight(gpipe(p, m).unwrap()), m);
            assert_eq!(in_flight(forward_only(p, m).unwrap()), 0);
            assert_eq!(in_flight(zb_h1(p, m).unwrap()), zb_h1_in_flight(p, m));
            assert_eq!(in_flight(zb_h2(p, m).unwrap()), zb_h2_in_flight(p, m));
        }
    }
}

#[test]
fn in_flight_of_several_stages_per_rank_equals_the_closed_forms() {
    for (p, m) in (1..=5).flat_map(|p| (1..=14).map(move |m| (p, m))) {
        for v in 2..=4 {
            for rank in (0..p).map(PipelineRank) {
                let breadth_first = bfs(p, v, m).unwrap();
                assert_eq!(breadth_first.in_flight_on(rank) as u32, v * m);
                for stage in breadth_first.placement.stages(rank) {
                    assert_eq!(breadth_first.in_flight(stage) as u32, m);
                }
                for group_size in p..=m.max(p) {
                    let order = interleaved(p, v, m, group_size).unwrap();
                    let expected = interleaved_in_flight(p, v, m, group_size, rank);
                    assert_eq!(order.in_flight_on(rank) as u64, expected, "{p} {v} {m} {group_size} {rank}");
                }
            }
        }
    }
}

#[test]
fn makespans_equal_the_closed_forms() {
    // The picture's clock: T_F = 1, T_B = 2, no latency.
    let columns = |order: ComputeOrder| {
        let picture = render::order(&order, usize::MAX);
        picture.lines().next().unwrap().split_whitespace().count() - 2
    };
    for (p, m) in (1..=5).flat_map(|p| (1..=9).map(move |m| (p, m))) {
        let (ranks, micro_batches) = (p as usize, m as usize);
        for generate in [gpipe, one_f_one_b, eager_1f1b] {
            assert_eq!(columns(generate(p, m).unwrap()), 3 * (micro_batches + ranks - 1));
        }
        assert_eq!(columns(forward_only(p, m).unwrap()), micro_batches + ranks - 1);
        for v in (2..=4).filter(|_| m % p == 0) {
            let looped = Placement::looped(p, v).unwrap();
            let forwards = columns(forward_only_on(&looped, m).unwrap());
            assert_eq!(forwards, v as usize * micro_batches + ranks - 1, "no rank idles between its turns");
        }
    }
}

#[test]
fn on_a_linear_placement_any_evaluation_is_the_same() {
    for (p, m) in (1..=5).flat_map(|p| (1..=9).map(move |m| (p, m))) {
        let placement = Placement::linear(p).unwrap();
        assert_eq!(forward_only_on(&placement, m), forward_only(p, m));
    }
}

#[test]
fn sizes_that_make_no_schedule_are_errors() {
    for generate in ONE_STAGE_EACH {
        assert_eq!(generate(0, 1), Err(SizeError::NoRank));
        assert_eq!(generate(1, 0), Err(SizeError::NoMicroBatch));
        let too_large = SizeError::TooLarge { num_stages: u32::MAX.into(), num_micro_batches: u32::MAX };
        assert_eq!(generate(u32::MAX, u32::MAX), Err(too_large));
        assert!(generate(1, 1).is_ok());
    }
    let message = |error: Result<ComputeOrder, SizeError>| error.unwrap_err().to_string();
    assert_eq!(interleaved(0, 2, 1, 1), Err(SizeError::NoRank));
    assert_eq!(interleaved(1, 2, 0, 1), Err(SizeError::NoMicroBatch));
    assert_eq!(bfs(0, 2, 1), Err(SizeError::NoRank));
    assert_eq!(bfs(1, 2, 0), Err(SizeError::NoMicroBatch));
    assert!(matches!(bfs(u32::MAX, u32::MAX, 1), Err(SizeError::TooLarge { .. })));
    assert!(matches!(interleaved(4, 0, 8, 4), Err(SizeError::TooFewVirtualStages { num_virtual: 0, .. })));
    let placement = Placement::linear(1).unwrap();
    assert_eq!(forward_only_on(&placement, 0), Err(SizeError::NoMicroBatch));
    assert!(message(interleaved(4, 1, 8, 4)).ends_with("with 1 it is `1f1b`, so ask for that"));
    assert!(message(bfs(4, 1, 8)).ends_with("with 1 it is `gpipe`, so ask for that"));
    expect![["groups of 3 micro-batches on 4 ranks: the first micro-batch of a group comes back to a rank after 4 forwards, and a rank that turns to its next stage earlier waits for it, in the worst case for ever; use at least 4"]]
        .assert_eq(&message(interleaved(4, 2, 8, 3)));
}

#[test]
fn pictures() {
    let placement =
        |ranks: &[u32]| Placement::new(ranks.iter().copied().map(PipelineRank).collect()).unwrap();
    let orders = [
        eager_1f1b(3, 4),
        gpipe(3, 4),
        one_f_one_b(3, 4),
        one_f_one_b(4, 2),
        forward_only(3, 4),
        interleaved(2, 2, 4, 2),
        bfs(2, 2, 4),
        forward_only_on(&placement(&[0, 1, 0, 1]), 4),
        forward_only_on(&placement(&[0, 1, 1, 0]), 3),
        forward_only_on(&placement(&[0, 0, 0]), 2),
    ];
    let pictures = orders.map(|order| render::order(&order.unwrap(), 120));
    expect![[r#"
        rank 0  F0 F1 F2 F3 .. .. .. B0 B0 .. B1 B1 .. B2 B2 .. B3 B3
        rank 1  .. F0 F1 F2 .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3 .. ..
        rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .. .. .. ..

        rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
        rank 1  .. F0 F1 F2 F3 .. .. .. B0 B0 B1 B1 B2 B2 B3 B3 .. ..
        rank 2  .. .. F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .. .. .. ..

        rank 0  F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
        rank 1  .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 .. B3 B3 .. ..
        rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .. .. .. ..

        rank 0  F0 F1 .. .. .. .. .. .. .. .. B0 B0 .. B1 B1
        rank 1  .. F0 F1 .. .. .. .. .. B0 B0 .. B1 B1 .. ..
        rank 2  .. .. F0 F1 .. .. B0 B0 .. B1 B1 .. .. .. ..
        rank 3  .. .. .. F0 B0 B0 F1 B1 B1 .. .. .. .. .. ..

        rank 0  F0 F1 F2 F3 .. ..
        rank 1  .. F0 F1 F2 F3 ..
        rank 2  .. .. F0 F1 F2 F3

        rank 0  0F0 0F1 2F0 2F1 0F2 ..  2B0 2B0 0F3 2B1 2B1 2F2 0B0 0B0 2F3 0B1 0B1 ..  2B2 2B2 ..  2B3 2B3 0B2 0B2 0B3 0B3
        rank 1  ..  1F0 1F1 3F0 3B0 3B0 3F1 3B1 3B1 1F2 1B0 1B0 1F3 1B1 1B1 3F2 3B2 3B2 3F3 3B3 3B3 1B2 1B2 1B3 1B3 ..  ..

        rank 0  0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3 ..  ..  ..  2B0 2B0 2B1 2B1 2B2 2B2 2B3 2B3 0B0 0B0 0B1 0B1 0B2 0B2 0B3 0B3
        rank 1  ..  1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3 3B0 3B0 3B1 3B1 3B2 3B2 3B3 3B3 1B0 1B0 1B1 1B1 1B2 1B2 1B3 1B3 ..  ..

        rank 0  0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3 ..
        rank 1  ..  1F0 1F1 3F0 3F1 1F2 1F3 3F2 3F3

        rank 0  0F0 0F1 0F2 3F0 ..  3F1 ..  3F2
        rank 1  ..  1F0 2F0 1F1 2F1 1F2 2F2 ..

        rank 0  0F0 1F0 2F0 0F1 1F1 2F1
    "#]].assert_eq(&pictures.join("\n"));
}
