//! Whether an order can run: asked of its program, so that file and program are held to one set of rules.
//!
//! The program has one unit in each stage. More units, weights that are gathered and gradients that are reduced change
//! neither what a stage waits for nor which messages there are, so its answer is that of every program of the order.

use alloc::vec::Vec;

use super::cells::csv_place;
use super::error::{CsvError, CsvPlace, CsvRule};
use crate::check::{CheckedProgram, Rule};
use crate::id::{Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::lower::{LowerError, lower};
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::unit_facts::UnitFacts;

/// Refuses a complete order, read from `text`, that cannot run: at the cell of the action that cannot start.
pub(super) fn check(order: &ComputeOrder, text: &str) -> Result<(), CsvError> {
    let stages = 0..order.placement.num_stages() as u32;
    let units: Vec<UnitFacts> = stages.map(|stage| UnitFacts::new(Stage(stage), 1)).collect();
    let program = match lower(order, &units, &LowerOptions::ZERO_0) {
        Err(LowerError::Stuck { instruction, edge, .. }) => {
            return Err(stuck(text, instruction, edge));
        }
        program => program.expect("the order is complete, and one unit in each stage a chain"),
    };
    match CheckedProgram::new(program).map_err(|violation| violation.rule) {
        Err(Rule::RunsBefore { instruction, needed }) => {
            let ((action, at), (needed, place)) = (cell(text, instruction), cell(text, needed));
            Err(CsvError::at(at, action, CsvRule::RunsBefore { needed, place }))
        }
        // Lowering keeps every other rule; if it did not, whoever checks the program that is to run would be told.
        _ => Ok(()),
    }
}

/// The error of the compute that waits for a message of `edge`.
fn stuck(text: &str, instruction: Instruction, edge: Edge) -> CsvError {
    let (action, at) = cell(text, instruction);
    let (unit, micro_batch) = (Unit(edge.sender().0), action.micro_batch);
    let awaited = match edge {
        Edge::Up(_) => Instruction::Forward { unit, micro_batch },
        Edge::Down(_) => Instruction::Backward { unit, micro_batch },
    };
    let (awaited, place) = cell(text, awaited);
    CsvError::at(at, action, CsvRule::Stuck { awaited, place })
}

/// The action whose only instruction this is, and its cell. A rule speaks of a full backward where the order may have an
/// input gradient.
fn cell(text: &str, instruction: Instruction) -> (StageAction, CsvPlace) {
    let (kinds, unit, micro_batch): (&[ComputeKind], _, _) = match instruction {
        Instruction::Forward { unit, micro_batch } => (&[ComputeKind::Forward], unit, micro_batch),
        Instruction::BackwardWeight { unit, micro_batch } => {
            (&[ComputeKind::BackwardWeight], unit, micro_batch)
        }
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardInput { unit, micro_batch } => {
            (&[ComputeKind::Backward, ComputeKind::BackwardInput], unit, micro_batch)
        }
        other => unreachable!("`{other}` computes nothing of a micro-batch that an order has"),
    };
    let stage = Stage(unit.0);
    let mut actions = kinds.iter().map(|&kind| StageAction { kind, stage, micro_batch });
    let found = actions.find_map(|action| Some((action, csv_place(text, action)?)));
    found.expect("the order is complete, and was read from this text")
}

#[cfg(test)]
mod tests;
