//! Kinds of messages: costs are kept by kind, and recorded steps and probes of links name messages by kind.

use std::fmt;

use pipezero_schedule::{Edge, Instruction};
use serde::{Deserialize, Serialize};

/// A kind of message, the norm and the tied addition among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// `UNSHARD`.
    Unshard,
    /// `GATHER_STEP`.
    GatherAfterStep,
    /// `REDUCE`.
    Reduce,
    /// `REDUCE_LAST`.
    ReduceLast,
    /// `ALL_REDUCE`.
    AllReduce,
    /// `SEND` and `RECV` of an activation, up.
    Activation,
    /// `SEND` and `RECV` of a gradient, down.
    Gradient,
    /// `ADD_TIED`, from when both ranks have joined.
    AddTied,
    /// `GRAD_NORM`, from when all ranks have joined.
    GradientNorm,
}

/// As the file spells it.
impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl MessageKind {
    /// Whether it goes from one rank to another: all others are of a group.
    pub fn is_transfer(self) -> bool {
        matches!(self, Self::Activation | Self::Gradient)
    }

    /// Whether ranks wait in their rows until all have joined.
    pub fn is_joint(self) -> bool {
        matches!(self, Self::AddTied | Self::GradientNorm)
    }

    /// What an instruction sends, if it sends anything.
    pub fn of(instruction: Instruction) -> Option<Self> {
        match instruction {
            Instruction::Unshard { .. } => Some(Self::Unshard),
            Instruction::GatherAfterStep { .. } => Some(Self::GatherAfterStep),
            Instruction::Reduce { .. } => Some(Self::Reduce),
            Instruction::ReduceLast { .. } => Some(Self::ReduceLast),
            Instruction::AllReduce { .. } => Some(Self::AllReduce),
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => Some(match edge {
                Edge::Up(_) => Self::Activation,
                Edge::Down(_) => Self::Gradient,
            }),
            Instruction::AddTied { .. } => Some(Self::AddTied),
            Instruction::GradientNorm => Some(Self::GradientNorm),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. }
            | Instruction::Reshard { .. }
            | Instruction::OptimizerStep { .. } => None,
        }
    }
}
