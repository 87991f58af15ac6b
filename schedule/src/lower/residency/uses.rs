//! The uses of gathered weights along a row.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::dataflow::reads_weights;
use crate::id::Unit;
use crate::instruction::Instruction;

/// One use of a unit's gathered weights: an instruction that reads them, or a recompute and its backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Whose weights.
    pub(super) unit: Unit,
    /// Position of the first reader in the row.
    pub(super) begins: usize,
    /// Position of the last reader.
    pub(super) ends: usize,
}

/// The uses of a row, in order; between a recompute and its backward no other unit is read.
pub(super) fn of_row(row: &[Instruction], chain: &Chain) -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    let mut recomputed = None;
    for (step, &instruction) in row.iter().enumerate() {
        let Some(unit) = reads_weights(chain, instruction) else { continue };
        match (instruction, uses.last_mut()) {
            (Instruction::Backward { micro_batch, .. }, Some(last))
                if recomputed == Some((unit, micro_batch)) =>
            {
                last.ends = step;
            }
            _ => uses.push(Use { unit, begins: step, ends: step }),
        }
        recomputed = match instruction {
            Instruction::Recompute { unit, micro_batch } => Some((unit, micro_batch)),
            _ => None,
        };
    }
    uses
}

/// For each use, the next use of the same unit.
pub(super) fn next_uses(uses: &[Use], num_units: usize) -> Vec<Option<usize>> {
    let mut seen = vec![None; num_units];
    let mut next_uses = vec![None; uses.len()];
    for (position, of) in uses.iter().enumerate().rev() {
        next_uses[position] = seen[of.unit.index()].replace(position);
    }
    next_uses
}
