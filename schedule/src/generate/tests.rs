//! Generators against their closed forms and pictures.

use alloc::vec::Vec;

use expect_test::{Expect, expect};

use super::{SizeError, forward_only, gpipe, one_f_one_b};
use crate::closed_form::{gpipe_in_flight, one_f_one_b_in_flight};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::order::{ComputeKind, ComputeOrder};
use crate::render;

type Generator = fn(u32, u32) -> Result<ComputeOrder, SizeError>;

const GENERATORS: [Generator; 3] = [gpipe, one_f_one_b, forward_only];

#[test]
fn every_stage_runs_each_micro_batch_once_and_in_ascending_order() {
    for generate in GENERATORS {
        for (p, m) in (1..=6).flat_map(|p| (1..=9).map(move |m| (p, m))) {
            let order = generate(p, m).unwrap();
            assert_eq!(order.rows.len(), p as usize);
            for (rank, row) in order.rows.iter().enumerate() {
                let of_kind = |kind| -> Vec<MicroBatch> {
                    row.iter().filter(|action| action.kind == kind).map(|action| action.micro_batch).collect()
                };
                let ascending: Vec<_> = (0..m).map(MicroBatch).collect();
                assert_eq!(of_kind(ComputeKind::Forward), ascending);
                let backwards = of_kind(ComputeKind::Backward);
                assert!(backwards == ascending || !order.has_backward() && backwards.is_empty());
                let rank = PipelineRank(rank as u32);
                assert!(row.iter().all(|action| order.placement.rank(action.stage) == rank));
            }
        }
    }
}

#[test]
fn in_flight_equals_the_closed_forms() {
    for (p, m) in (1..=6).flat_map(|p| (1..=9).map(move |m| (p, m))) {
        for stage in (0..p).map(Stage) {
            let in_flight = |order: ComputeOrder| order.in_flight(stage) as u32;
            assert_eq!(in_flight(one_f_one_b(p, m).unwrap()), one_f_one_b_in_flight(p, m, stage));
            assert_eq!(in_flight(gpipe(p, m).unwrap()), gpipe_in_flight(m));
            assert_eq!(in_flight(forward_only(p, m).unwrap()), 0);
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
        assert_eq!(columns(gpipe(p, m).unwrap()), 3 * (micro_batches + ranks - 1));
        assert_eq!(columns(one_f_one_b(p, m).unwrap()), 3 * (micro_batches + ranks - 1));
        assert_eq!(columns(forward_only(p, m).unwrap()), micro_batches + ranks - 1);
    }
}

#[test]
fn zero_sizes_are_errors() {
    for generate in GENERATORS {
        assert_eq!(generate(0, 1), Err(SizeError::NoRank));
        assert_eq!(generate(1, 0), Err(SizeError::NoMicroBatch));
        assert!(generate(1, 1).is_ok());
    }
}

fn picture(order: ComputeOrder, expected: Expect) {
    expected.assert_eq(&render::order(&order, 80));
}

#[test]
fn pictures() {
    picture(
        gpipe(3, 4).unwrap(),
        expect![[r#"
        rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
        rank 1  .. F0 F1 F2 F3 .. .. .. B0 B0 B1 B1 B2 B2 B3 B3 .. ..
        rank 2  .. .. F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .. .. .. ..
    "#]],
    );
    picture(
        one_f_one_b(3, 4).unwrap(),
        expect![[r#"
        rank 0  F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
        rank 1  .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 .. B3 B3 .. ..
        rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .. .. .. ..
    "#]],
    );
    picture(
        one_f_one_b(4, 2).unwrap(),
        expect![[r#"
        rank 0  F0 F1 .. .. .. .. .. .. .. .. B0 B0 .. B1 B1
        rank 1  .. F0 F1 .. .. .. .. .. B0 B0 .. B1 B1 .. ..
        rank 2  .. .. F0 F1 .. .. B0 B0 .. B1 B1 .. .. .. ..
        rank 3  .. .. .. F0 B0 B0 F1 B1 B1 .. .. .. .. .. ..
    "#]],
    );
    picture(
        forward_only(3, 4).unwrap(),
        expect![[r#"
        rank 0  F0 F1 F2 F3 .. ..
        rank 1  .. F0 F1 F2 F3 ..
        rank 2  .. .. F0 F1 F2 F3
    "#]],
    );
}

#[test]
fn csv_is_pytorchs() {
    expect![[r#"
        0F0,0F1,0B0,0F2,0B1,0B2
        1F0,1B0,1F1,1B1,1F2,1B2
    "#]]
    .assert_eq(&one_f_one_b(2, 3).unwrap().to_csv());
}
