//! The end of the step is complete, in order, and nothing follows it.

use super::{Checked, Rule, Violation};
use crate::instruction::Instruction;
use crate::lower::tail;
use crate::program::{Program, Purpose};

pub(super) fn check(program: &Program) -> Checked {
    if program.purpose == Purpose::Evaluation {
        return Ok(());
    }
    for rank in program.ranks() {
        let row = program.row(rank);
        let start = row.iter().position(|&instruction| is_of_tail(instruction)).unwrap_or(row.len());
        let expected = tail(&program.chain, rank, &program.options);
        for offset in 0..expected.len().max(row.len() - start) {
            let (found, expected) = (row.get(start + offset).copied(), expected.get(offset).copied());
            if found != expected {
                return Err(Violation::new(program, rank, start + offset, Rule::Tail { found, expected }));
            }
        }
    }
    Ok(())
}

fn is_of_tail(instruction: Instruction) -> bool {
    matches!(
        instruction,
        Instruction::AddTied { .. }
            | Instruction::GradientNorm
            | Instruction::OptimizerStep { .. }
            | Instruction::GatherAfterStep { .. }
    )
}
