//! What a rank is doing when it fails.

use pipezero_comm::world::Position;
use pipezero_schedule::Instruction;

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It computes a forward.
    Forward,
    /// It computes a backward.
    Backward,
    /// It reduces gradients, or waits for that.
    Reduce,
    /// It updates weights.
    Optimizer,
    /// It saves weights, which is no instruction.
    Saving,
}

impl Phase {
    /// All, with the word for each.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Forward, "forward"),
        (Self::Backward, "backward"),
        (Self::Reduce, "reduce"),
        (Self::Optimizer, "optimizer"),
        (Self::Saving, "saving"),
    ];

    /// Whether a rank that is there is at it.
    pub fn has(self, position: Position) -> bool {
        let (instruction, waits_for) = match position {
            Position::At { instruction, .. } => (Some(instruction), None),
            Position::Waiting { instruction, waits_for, .. } => (Some(instruction), Some(waits_for)),
            Position::Draining { waits_for, .. } => (None, Some(waits_for)),
            _ => (None, None),
        };
        let is_reduce = |instruction| {
            matches!(
                instruction,
                Instruction::Reduce { .. } | Instruction::ReduceLast { .. } | Instruction::AllReduce { .. }
            )
        };
        match self {
            Self::Forward => matches!(instruction, Some(Instruction::Forward { .. })),
            Self::Backward => matches!(instruction, Some(Instruction::Backward { .. })),
            Self::Reduce => instruction.is_some_and(is_reduce) || waits_for.is_some_and(is_reduce),
            Self::Optimizer => matches!(instruction, Some(Instruction::OptimizerStep { .. })),
            Self::Saving => false,
        }
    }
}
