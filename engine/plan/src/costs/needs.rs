//! What of each unit a program asks for: costs of what does not occur need not be known.

use pipezero_schedule::{CheckedProgram, Instruction};

/// The computes of a unit that may occur or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitNeeds {
    pub(super) halves: bool,
    pub(super) recompute: bool,
}

impl UnitNeeds {
    /// `[unit]`: reads them off a program.
    pub(super) fn of(program: &CheckedProgram) -> Vec<Self> {
        let mut needs = vec![Self::default(); program.units().len()];
        for &instruction in program.program().rows.iter().flatten() {
            match instruction {
                Instruction::BackwardInput { unit, .. } | Instruction::BackwardWeight { unit, .. } => {
                    needs[unit.index()].halves = true;
                }
                Instruction::Recompute { unit, .. } => needs[unit.index()].recompute = true,
                _ => {}
            }
        }
        needs
    }
}
