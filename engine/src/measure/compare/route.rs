//! Which messages have one size between the same ranks, and so one price.

use pipezero_schedule::Instruction;

use crate::plan::costs::MessageKind;

/// The messages of a kind for one unit, or over one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) kind: MessageKind,
    /// Of the unit or the edge.
    pub(super) index: usize,
}

impl Route {
    /// Of a message; `None` of what the compute lane does.
    pub(super) fn of(instruction: Instruction) -> Option<Self> {
        let kind = MessageKind::of(instruction)?;
        let index = match instruction {
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => edge.index(),
            _ => instruction.unit()?.index(),
        };
        Some(Self { kind, index })
    }
}
