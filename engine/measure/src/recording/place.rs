//! An instruction on one rank.

use std::fmt;

use pipezero_schedule::{Instruction, InstructionKind, Unit};

/// An instruction on a world rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The world rank.
    pub rank: usize,
    /// The position in its row.
    pub index: usize,
    /// What stands there.
    pub instruction: Instruction,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, index, instruction } = self;
        write!(f, "rank {rank}, instruction {index} (`{instruction}`)")
    }
}

/// The unit that an instruction computes, on a micro-batch or in the optimizer's step.
pub(crate) fn computed_unit(instruction: Instruction) -> Option<Unit> {
    let computes =
        instruction.is_micro_batch_compute() || instruction.kind() == InstructionKind::OptimizerStep;
    instruction.unit().filter(|_| computes)
}
