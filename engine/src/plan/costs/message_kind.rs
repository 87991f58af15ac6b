//! The kinds of messages.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of message: what moves it, and what becomes of it.
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
        f.write_str(match self {
            Self::Unshard => "unshard",
            Self::GatherAfterStep => "gather_after_step",
            Self::Reduce => "reduce",
            Self::ReduceLast => "reduce_last",
            Self::AllReduce => "all_reduce",
            Self::Activation => "activation",
            Self::Gradient => "gradient",
            Self::AddTied => "add_tied",
            Self::GradientNorm => "gradient_norm",
        })
    }
}
