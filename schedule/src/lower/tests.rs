//! Lowering: known counts, and its errors.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{LowerError, lower};
use crate::chain::ChainError;
use crate::check::CheckedProgram;
use crate::closed_form::last_rank_gathers;
use crate::generate::{forward_only, gpipe, one_f_one_b};
use crate::id::{PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction, InstructionKind as Kind, Lane};
use crate::options::{LowerOptions, OptionsError, Residency, UnreducedGradients, Weights};
use crate::order::ComputeOrder;
use crate::testing::{
    action, all_options, checked, instruction, lowered, order, resident, resident_in_turn, units,
};
use crate::unit_facts::{Tying, UnitFacts, UnitSharding};

fn gathers(program: &CheckedProgram) -> Vec<usize> {
    program.ranks().map(|rank| program.count(rank, Kind::Unshard)).collect()
}

/// The program of an order that runs, for these units, checked.
fn checked_with(order: &ComputeOrder, units: &[UnitFacts], options: &LowerOptions) -> CheckedProgram {
    let program = lower(order, units, options).unwrap();
    CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}"))
}

/// 48 layers on 4 stages, 3 units of 4 layers each, embedding and head merged into the outer ones, 8 micro-batches.
#[test]
fn the_48_layer_example_gathers_as_often_as_known() {
    let order = one_f_one_b(4, 8).unwrap();
    let gathers = |residency| gathers(&checked(&order, 3, &LowerOptions::zero_3(residency, 0)));
    assert_eq!(gathers(Residency::Strict), [48, 48, 48, 48]);
    assert_eq!(gathers(resident(1)), [39, 37, 35, 33]);
}

/// The same with embedding and head as units of their own: they break the turns at both ends of the pipeline.
#[test]
fn units_of_embedding_and_head_break_the_turns() {
    let unit = |stage| UnitFacts::new(Stage(stage), 1);
    let mut units = vec![UnitFacts { backward_reads_weights: false, ..unit(0) }];
    units.extend((0..12).map(|layer| unit(layer / 3)));
    units.push(unit(3));
    let program = checked_with(&one_f_one_b(4, 8).unwrap(), &units, &LowerOptions::zero_3(resident(1), 0));
    let of_layers = program
        .ranks()
        .map(|rank| gathered_units(program.row(rank)).filter(|unit| (1..13).contains(&unit.0)).count());
    assert_eq!(of_layers.collect::<Vec<_>>(), [43, 37, 35, 41]);
}

#[test]
fn the_last_rank_of_1f1b_gathers_as_little_as_the_closed_form() {
    for (p, m) in (1..=3).flat_map(|p| (1..=6).map(move |m| (p, m))) {
        for (num_units, budget) in (1..=6).flat_map(|units| (1..=6).map(move |budget| (units, budget))) {
            let options = LowerOptions::zero_3(resident(budget), 0);
            let program = checked(&one_f_one_b(p, m).unwrap(), num_units, &options);
            let of_last = *gathers(&program).last().unwrap() as u64;
            let held = budget.min(num_units);
            assert_eq!(of_last, u64::from(held + 2 * m * (num_units - held)));
            assert_eq!(of_last, last_rank_gathers(m, num_units, budget));
        }
    }
}

#[test]
fn prefetch_issues_each_gather_one_use_ahead() {
    for prefetch_units in 0..=2 {
        let options = LowerOptions::zero_3(Residency::Strict, prefetch_units as u32);
        let program = lowered(&one_f_one_b(2, 3).unwrap(), 3, &options);
        for row in &program.rows {
            let is_use = |of: &Instruction| matches!(of.kind(), Kind::Forward | Kind::Backward);
            let uses = (0..row.len()).filter(|&step| is_use(&row[step]));
            for (num_uses, step) in uses.enumerate() {
                let due = (num_uses + 1 + prefetch_units).min(18);
                assert_eq!(gathered_units(&row[..step]).count(), due, "issued before the compute");
            }
        }
    }
}

#[test]
fn sends_follow_their_compute_and_reductions_go_with_the_next_backward() {
    let options = LowerOptions::zero_3(Residency::Strict, 1);
    let program = lowered(&one_f_one_b(3, 4).unwrap(), 2, &options);
    let is_backward = |of: &Instruction| matches!(of, Instruction::Backward { .. });
    for row in &program.rows {
        for pair in row.windows(2) {
            if let Instruction::Send { edge, micro_batch } = pair[1] {
                let unit = program.chain.producer(edge);
                let made_by = edge.compute(unit, micro_batch);
                assert_eq!(pair[0], made_by);
            }
        }
        let mut num_with_a_backward = 0;
        for (index, &instruction) in row.iter().enumerate() {
            let Instruction::Reduce { unit, micro_batch } = instruction else { continue };
            let last = row[..index].iter().rfind(|of| is_backward(of));
            assert_eq!(last, Some(&Instruction::Backward { unit, micro_batch }));
            // Directly before the next backward, whose gathers have gone first; or there is none.
            let has_next = row[index..].iter().any(is_backward);
            assert_eq!(is_backward(&row[index + 1]), has_next);
            num_with_a_backward += usize::from(has_next);
        }
        assert_eq!(num_with_a_backward, 4 * 2 - 1);
    }
}

/// With one gradient buffer nothing is computed between a gradient and its reduction, so forwards and recomputations run beside it.
#[test]
fn with_one_gradient_buffer_reductions_are_issued_at_once() {
    let options =
        LowerOptions { unreduced: UnreducedGradients::One, ..LowerOptions::zero_3(Residency::Strict, 1) };
    let program = lowered(&one_f_one_b(3, 4).unwrap(), 2, &options);
    for row in &program.rows {
        let reductions = row.iter().enumerate().filter(|(_, of)| of.kind() == Kind::Reduce);
        for (index, &reduction) in reductions {
            let last = row[..index].iter().rfind(|of| of.is_micro_batch_compute()).unwrap();
            assert_eq!(
                (last.kind(), last.unit(), last.micro_batch()),
                (Kind::Backward, reduction.unit(), reduction.micro_batch())
            );
        }
    }
}

#[test]
fn an_evaluation_has_no_tail_and_no_reduction() {
    let program = lower(&forward_only(2, 3).unwrap(), &units(2, 2, true), &LowerOptions::ZERO_1).unwrap();
    assert!(
        program
            .rows
            .iter()
            .flatten()
            .all(|of| [Kind::Forward, Kind::Send, Kind::Receive].contains(&of.kind()))
    );
}

#[test]
fn options_that_contradict_each_other_are_errors() {
    let weights = Weights::Sharded { residency: Residency::Strict, prefetch_units: 0 };
    let gather_after_step = |asked| OptionsError::GatherAfterStep { asked };
    for (options, error) in [
        (
            LowerOptions::zero_3(resident(2), 2),
            OptionsError::BudgetBelowPrefetch { units: 2, prefetch_units: 2 },
        ),
        (
            LowerOptions::zero_3(resident_in_turn(&[1], 1), 1),
            OptionsError::BudgetBelowPrefetch { units: 1, prefetch_units: 1 },
        ),
        (
            LowerOptions::zero_3(resident_in_turn(&[2], 3), 0),
            OptionsError::NumBudgets { num_budgets: 3, num_ranks: 1 },
        ),
        (LowerOptions { gather_after_step: false, ..LowerOptions::ZERO_1 }, gather_after_step(false)),
        (LowerOptions { gather_after_step: true, ..LowerOptions::ZERO_0 }, gather_after_step(true)),
        (LowerOptions { weights, ..LowerOptions::ZERO_0 }, OptionsError::AllReduceOfShardedWeights),
    ] {
        let lowered = lower(&gpipe(1, 1).unwrap(), &units(1, 1, false), &options);
        assert_eq!(lowered, Err(LowerError::Options(error)));
    }
}

fn error_of(order: &ComputeOrder) -> LowerError {
    lower(order, &units(2, 1, false), &LowerOptions::ZERO_0).unwrap_err()
}

#[test]
fn orders_that_cannot_run_are_errors() {
    let mut one_row = order(&[0, 1], 1, &["", ""]);
    one_row.rows.pop();
    assert_eq!(error_of(&one_row), LowerError::NumRows { num_rows: 1, num_ranks: 2 });
    let expected = 2 * u64::from(u32::MAX);
    let claimed = order(&[0, 1], u32::MAX, &["0F0", ""]);
    assert_eq!(error_of(&claimed), LowerError::NumForwards { num_forwards: 1, expected });
    for (rank, misplaced, rows) in
        [(0, "1F0", ["1F0", "1F0"]), (0, "2F0", ["2F0", "1F0"]), (1, "1F1", ["0F0", "1F1"])]
    {
        let expected = LowerError::Misplaced { rank: PipelineRank(rank), action: action(misplaced) };
        assert_eq!(error_of(&order(&[0, 1], 1, &rows)), expected);
    }
    let stuck = LowerError::Stuck {
        rank: PipelineRank(0),
        instruction: instruction("B u0 m0"),
        edge: Edge::Down(Stage(0)),
        cycle: Vec::new(),
    };
    assert_eq!(error_of(&order(&[0, 1], 1, &["0B0 0F0", "1F0"])), stuck);
    let without_unit = LowerError::Chain(ChainError::StageWithoutUnit(Stage(2)));
    assert_eq!(error_of(&gpipe(3, 1).unwrap()), without_unit);
    // The receiver wants the third message first, and has buffers for two.
    let third_first = order(&[0, 1], 3, &["0F0 0F1 0F2", "1F2 1F0 1F1"]);
    assert!(matches!(error_of(&third_first), LowerError::Stuck { rank: PipelineRank(1), .. }));
    checked(&order(&[0, 1], 3, &["0F0 0F1 0F2", "1F1 1F0 1F2"]), 1, &LowerOptions::ZERO_0);
}

/// A vocabulary beside small blocks: embedding (whose backward reads no weights) and tied head.
fn tied_vocabulary() -> Vec<UnitFacts> {
    let unit = |stage, num_bytes| UnitFacts::new(Stage(stage), num_bytes);
    let embedding = UnitFacts { backward_reads_weights: false, tying: Tying::Embedding, ..unit(0, 1000) };
    let head = UnitFacts { tying: Tying::Head, ..unit(1, 1000) };
    vec![embedding, unit(0, 10), unit(0, 10), unit(1, 10), unit(1, 10), head]
}

#[test]
fn a_tied_vocabulary_costs_one_huge_buffer() {
    let order = one_f_one_b(2, 4).unwrap();
    for residency in [Residency::Strict, resident(2)] {
        let is_strict = residency == Residency::Strict;
        let program = checked_with(&order, &tied_vocabulary(), &LowerOptions::zero_3(residency, 1));
        for rank in [PipelineRank(0), PipelineRank(1)] {
            assert_eq!(program.gather_buffers(rank), [1000, 10]);
            assert_eq!(program.high_water(rank).gathered_bytes, 1010);
            let huge = program.chain().units_on(rank).find(|unit| [0, 5].contains(&unit.0));
            for (index, &instruction) in program.row(rank).iter().enumerate() {
                if let Instruction::Unshard { unit } = instruction {
                    let in_huge = program.gather_buffer(rank.at(index)) == 0;
                    assert!(in_huge || Some(unit) != huge, "{unit} in the small buffer");
                }
            }
        }
        let gathers = gathers(&program);
        if is_strict {
            assert_eq!(gathers, [2 * 4 * 3 - 4, 2 * 4 * 3]);
        } else {
            assert!(gathers[0] < 20 && gathers[1] < 24, "{gathers:?}");
        }
    }
}

/// The largest of three takes either buffer in turn; were one a little smaller, its gather would often wait.
#[test]
fn units_of_nearly_equal_size_take_turns_in_equal_buffers() {
    let order = one_f_one_b(1, 3).unwrap();
    let buffers = |sizes: [u64; 3]| {
        let facts = sizes.map(|num_bytes| UnitFacts::new(Stage(0), num_bytes));
        let program = checked_with(&order, &facts, &LowerOptions::zero_3(Residency::Strict, 1));
        program.gather_buffers(PipelineRank(0)).to_vec()
    };
    assert_eq!(buffers([101, 100, 100]), [101, 101]);
    assert_eq!(buffers([100, 51, 51]), [100, 100]);
    assert_eq!(buffers([100, 50, 50]), [100, 50]);
}

#[test]
fn where_all_stay_each_unit_is_gathered_once_at_its_first_use() {
    for prefetch_units in 0..=2 {
        let options = LowerOptions::zero_3(Residency::All, prefetch_units);
        let program = checked_with(&one_f_one_b(2, 4).unwrap(), &tied_vocabulary(), &options);
        for (rank, first) in [(PipelineRank(0), 0), (PipelineRank(1), 3)] {
            let gathered: Vec<Unit> = gathered_units(program.row(rank)).collect();
            assert_eq!(gathered, [first, first + 1, first + 2].map(Unit));
            assert_eq!(program.gather_buffers(rank), [1000, 10, 10]);
            let forward = |&of: &Instruction| of.kind() == Kind::Forward;
            let first_use = program.row(rank).iter().position(forward).unwrap();
            let ahead = gathered_units(&program.row(rank)[..first_use]).count();
            assert_eq!(ahead, 1 + prefetch_units as usize);
        }
    }
}

fn gathered_units(row: &[Instruction]) -> impl Iterator<Item = Unit> + '_ {
    row.iter().filter_map(|&of| if let Instruction::Unshard { unit } = of { Some(unit) } else { None })
}

#[test]
fn a_recompute_stands_by_its_backward_and_gathers_nothing_of_its_own() {
    let saved = units(3, 2, true);
    let recomputed: Vec<UnitFacts> =
        saved.iter().map(|&facts| UnitFacts { recomputes: true, ..facts }).collect();
    for options in all_options(3) {
        let order = one_f_one_b(3, 4).unwrap();
        let plain = lower(&order, &saved, &options).unwrap();
        let program = checked_with(&order, &recomputed, &options);
        for (rank, plain) in program.ranks().zip(&plain.rows) {
            let row = program.row(rank);
            // The embedding's recompute reads weights, its backward does not: one use more.
            if rank != PipelineRank(0) {
                assert!(gathered_units(row).eq(gathered_units(plain)));
            }
            for (index, &instruction) in row.iter().enumerate() {
                let Instruction::Recompute { unit, micro_batch } = instruction else { continue };
                let mut computes = row[index + 1..].iter().filter(|of| of.lane() == Lane::Compute);
                let next = computes.find(|of| of.kind() != Kind::Reshard);
                assert_eq!(next, Some(&Instruction::Backward { unit, micro_batch }));
                if let Some(edge) = program.chain().backward_input(unit) {
                    let receive = Instruction::Receive { edge, micro_batch };
                    assert!(row[..index].contains(&receive), "it can arrive during `{instruction}`");
                }
                let mut waits = program.waits(rank.at(index)).iter();
                assert!(waits.all(|&wait| row[wait].kind() != Kind::Receive));
            }
        }
    }
    let evaluation = lower(&forward_only(3, 2).unwrap(), &recomputed, &LowerOptions::ZERO_0).unwrap();
    assert!(evaluation.rows.iter().flatten().all(|of| of.kind() != Kind::Recompute));
}

#[test]
fn splitting_the_backward_of_a_unit_that_recomputes_is_an_error() {
    let order = order(&[0], 1, &["0F0 0I0 0W0"]);
    let mut units = units(1, 2, false);
    lower(&order, &units, &LowerOptions::ZERO_0).unwrap();
    units[1].recomputes = true;
    let error = lower(&order, &units, &LowerOptions::ZERO_0).unwrap_err();
    assert_eq!(error, LowerError::SplitRecompute { action: action("0I0"), unit: Unit(1) });
    assert_eq!(
        error.to_string(),
        "0I0 is half a backward of unit 1, which recomputes its activations: between the halves they would occupy \
         the buffer that the next unit needs; use a schedule with full backwards (`B`), or do not recompute"
    );
}

#[test]
fn persistent_units_are_gathered_after_the_step_alone() {
    let mut units = units(2, 2, false);
    units[1].sharding = UnitSharding::Persistent;
    let rows = |options: &LowerOptions| lower(&one_f_one_b(2, 2).unwrap(), &units, options).unwrap().rows;
    for residency in [Residency::Strict, resident(1), Residency::All] {
        let rows = rows(&LowerOptions::zero_3(residency, 0));
        assert!(rows.iter().flatten().all(|&of| of != Instruction::Unshard { unit: Unit(1) }));
        assert!(rows[0].ends_with(&["STEP u1", "GATHER_STEP u1"].map(instruction)));
        let count = |row: &[Instruction], kind| row.iter().filter(|of| of.kind() == kind).count();
        let num_gathered = [0, 1].map(|rank| count(&rows[rank], Kind::GatherAfterStep));
        assert_eq!(num_gathered, [1, 0]);
        assert_eq!(count(&rows[0], Kind::Reduce), 2 * 2, "reduced like the rest");
    }
    let whole = rows(&LowerOptions::ZERO_0);
    assert!(whole.iter().flatten().all(|of| of.kind() != Kind::GatherAfterStep));
}

/// Sent 0, 2, 3, 1 and read 2, 0, 1, 3: reading 2 frees a buffer that is not the next one's, reading 0 frees both.
#[test]
fn a_read_out_of_order_can_free_the_buffers_of_two_messages() {
    let rows = ["0F0 0F2 0F3 0F1 0B0 0B1 0B2 0B3", "1F2 1F0 1F1 1F3 1B0 1B1 1B2 1B3"];
    for per_stage in 1..=2 {
        checked(&order(&[0, 1], 4, &rows), per_stage, &LowerOptions::ZERO_1);
    }
}
