//! Which messages have one size between the same ranks, and so one price.

use pipezero_schedule::{Instruction, Unit};

use super::message_kind::MessageKind;

/// The messages of a kind for one unit, or over one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Their kind.
    pub kind: MessageKind,
    /// Of the unit or the edge; 0 of the norm and of tied additions, of which there is one for each
    /// slice: all are priced as the first, the largest.
    pub index: usize,
}

impl Route {
    /// Of what an instruction sends, if it sends anything.
    pub fn of(instruction: Instruction) -> Option<Self> {
        let kind = MessageKind::of(instruction)?;
        let index = match instruction {
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => edge.index(),
            _ => instruction.unit().map_or(0, Unit::index),
        };
        Some(Self { kind, index })
    }
}
