//! Shapes beyond the generators: split backwards, and several stages on a rank.

use std::string::ToString;
use std::vec::Vec;

use super::machine;
use crate::check::{CheckedProgram, Rule};
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::testing::{lowered, units};

/// A row of stage actions from PyTorch's form.
fn row(cells: &str) -> Vec<StageAction> {
    let action = |cell: &str| {
        let letter = cell.find(|character: char| character.is_ascii_alphabetic()).unwrap();
        StageAction {
            kind: match &cell[letter..=letter] {
                "F" => ComputeKind::Forward,
                "B" => ComputeKind::Backward,
                "I" => ComputeKind::BackwardInput,
                _ => ComputeKind::BackwardWeight,
            },
            stage: Stage(cell[..letter].parse().unwrap()),
            micro_batch: MicroBatch(cell[letter + 1..].parse().unwrap()),
        }
    };
    cells.split(' ').map(action).collect()
}

pub(super) fn order(ranks: &[u32], num_micro_batches: u32, rows: &[&str]) -> ComputeOrder {
    let placement = Placement::new(ranks.iter().copied().map(PipelineRank).collect()).unwrap();
    ComputeOrder { placement, num_micro_batches, rows: rows.iter().map(|cells| row(cells)).collect() }
}

/// A zero-bubble order: input gradients first, weight gradients where the rank would idle.
pub(super) fn split_order() -> ComputeOrder {
    order(&[0, 1], 2, &["0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"])
}

#[test]
fn split_backwards_are_accepted_and_each_half_is_needed() {
    for options in crate::testing::all_options() {
        let program = lower(&split_order(), &units(2, 2, true), &options).unwrap();
        let checked = CheckedProgram::new(program.clone()).unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(super::reference::play(&program), Ok(()));
        machine::run(&checked, 3).unwrap();
        assert_eq!(checked.high_water(PipelineRank(0)).in_flight, [(Stage(0), 2)], "slots are kept for `W`");
        for (rank, row) in program.rows.iter().enumerate() {
            for (step, &instruction) in row.iter().enumerate() {
                let is_half = matches!(
                    instruction,
                    Instruction::BackwardInput { .. } | Instruction::BackwardWeight { .. }
                );
                if is_half {
                    let mut mutant = program.clone();
                    mutant.rows[rank].remove(step);
                    let violation = CheckedProgram::new(mutant).expect_err("a half is missing");
                    assert_eq!(violation.rule, Rule::Missing(instruction));
                }
            }
        }
    }
}

#[test]
fn a_stage_may_follow_another_on_its_rank() {
    // A V: the last stage returns to rank 0, and the turn at rank 1 needs no message.
    let folded =
        order(&[0, 1, 1, 0], 2, &["0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"]);
    for options in crate::testing::all_options() {
        let program = lower(&folded, &units(4, 2, true), &options).unwrap();
        let text = program.to_string();
        let checked = CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}"));
        for seed in 0..5 {
            machine::run(&checked, seed).unwrap_or_else(|hazard| panic!("{hazard}\n{text}"));
        }
        let add_tied = Instruction::AddTied { embedding: Unit(0), head: Unit(7) };
        assert_eq!(checked.row(PipelineRank(0)).iter().filter(|&&of| of == add_tied).count(), 1);
        assert!(!checked.row(PipelineRank(0)).contains(&Instruction::OptimizerStep { unit: Unit(7) }));
        assert!(!checked.row(PipelineRank(1)).contains(&add_tied));
        let within = Edge::Up(Stage(1));
        assert!(!text.contains(&std::format!("SEND {within}")), "{text}");
    }
    let evaluation = order(&[0, 1, 1, 0], 3, &["0F0 0F1 3F0 0F2 3F1 3F2", "1F0 2F0 1F1 2F1 1F2 2F2"]);
    let program = lowered(&evaluation, 1, &LowerOptions::ZERO_0);
    let checked = CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}"));
    let slots: Vec<_> = (0..4).map(|stage| checked.num_slots(Stage(stage))).collect();
    assert_eq!(slots, [2, 1, 2, 1], "stage 1 is read by stage 2 on its rank, stages 0 and 2 send");
    machine::run(&checked, 1).unwrap();
}
