//! Whether an order can run: decided by checking its program, so that files and programs follow one set of rules.
//!
//! The program has one unit in each stage. More units, weights that are gathered and gradients that are reduced change
//! neither what a stage waits for nor which messages there are, so its answer is that of every program of the order.

use alloc::vec::Vec;

use super::cells::csv_place;
use super::error::{CsvError, CsvPlace, CsvRule, CsvWait};
use crate::check::{CheckedProgram, Rule};
use crate::id::Stage;
use crate::instruction::Instruction;
use crate::lower::{LowerError, StuckRank, lower};
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::unit_facts::UnitFacts;

/// Refuses a complete order, read from `text`, that cannot run: at the cell of the action that cannot start.
pub(super) fn check(order: &ComputeOrder, text: &str) -> Result<(), CsvError> {
    let stages = 0..order.placement.num_stages() as u32;
    let units: Vec<UnitFacts> = stages.map(|stage| UnitFacts::new(Stage(stage), 1)).collect();
    let program = match lower(order, &units, &LowerOptions::ZERO_0) {
        Err(LowerError::Stuck { cycle, .. }) => return Err(stuck(text, &cycle)),
        program => program.expect("the order is complete, and one unit in each stage a chain"),
    };
    match CheckedProgram::new(program).map_err(|violation| violation.rule) {
        Err(Rule::RunsBefore { instruction, needed }) => {
            let ((action, at), (needed, place)) = (cell(text, instruction), cell(text, needed));
            Err(CsvError::at(at, action, CsvRule::RunsBefore { needed, place }))
        }
        // Lowering keeps every other rule, and the program that will run is checked again.
        _ => Ok(()),
    }
}

/// The error of ranks that wait for each other, at the cell of the first.
fn stuck(text: &str, cycle: &[StuckRank]) -> CsvError {
    let waits = cycle.iter().map(|of| CsvWait {
        action: cell(text, of.instruction),
        lack: of.lack,
        awaited: cell(text, of.awaited),
    });
    let cycle: Vec<CsvWait> = waits.collect();
    let first =
        cycle.first().expect("a complete order has all that its computes wait for, so they wait in a cycle");
    let (action, at) = first.action;
    CsvError::at(at, action, CsvRule::Stuck(cycle))
}

/// The action whose only instruction this is, and its cell. A rule names a full backward where the order may have an
/// input gradient.
fn cell(text: &str, instruction: Instruction) -> (StageAction, CsvPlace) {
    let Some((kind, unit, micro_batch)) = ComputeKind::of(instruction) else {
        unreachable!("`{instruction}` computes nothing of a micro-batch that an order has")
    };
    let kinds = match kind {
        ComputeKind::Forward | ComputeKind::BackwardWeight => [kind, kind],
        ComputeKind::Backward | ComputeKind::BackwardInput => {
            [ComputeKind::Backward, ComputeKind::BackwardInput]
        }
    };
    let stage = Stage(unit.0);
    let mut actions = kinds.into_iter().map(|kind| StageAction { kind, stage, micro_batch });
    let found = actions.find_map(|action| Some((action, csv_place(text, action)?)));
    found.expect("the order is complete, and was read from this text")
}

#[cfg(test)]
mod tests;
