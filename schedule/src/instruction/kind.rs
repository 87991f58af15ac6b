//! The kinds of instructions.

use super::activity::Activity;

/// An instruction without its operands; what traffic and work are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionKind {
    /// `F`
    Forward,
    /// `B`
    Backward,
    /// `I`
    BackwardInput,
    /// `W`
    BackwardWeight,
    /// `R`
    Recompute,
    /// `UNSHARD`
    Unshard,
    /// `RESHARD`
    Reshard,
    /// `REDUCE`
    Reduce,
    /// `REDUCE_LAST`
    ReduceLast,
    /// `ALL_REDUCE`
    AllReduce,
    /// `SEND`
    Send,
    /// `RECV`
    Receive,
    /// `ADD_TIED`
    AddTied,
    /// `GRAD_NORM`
    GradientNorm,
    /// `STEP`
    OptimizerStep,
    /// `GATHER_STEP`
    GatherAfterStep,
}

impl InstructionKind {
    /// All of them, in the order of the enum, each with the word that its text form begins with.
    pub(crate) const ALL: [(Self, &str); 16] = [
        (Self::Forward, "F"),
        (Self::Backward, "B"),
        (Self::BackwardInput, "I"),
        (Self::BackwardWeight, "W"),
        (Self::Recompute, "R"),
        (Self::Unshard, "UNSHARD"),
        (Self::Reshard, "RESHARD"),
        (Self::Reduce, "REDUCE"),
        (Self::ReduceLast, "REDUCE_LAST"),
        (Self::AllReduce, "ALL_REDUCE"),
        (Self::Send, "SEND"),
        (Self::Receive, "RECV"),
        (Self::AddTied, "ADD_TIED"),
        (Self::GradientNorm, "GRAD_NORM"),
        (Self::OptimizerStep, "STEP"),
        (Self::GatherAfterStep, "GATHER_STEP"),
    ];

    /// The word that an instruction's text form begins with.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// What it spends time on.
    pub(crate) fn activity(self) -> Activity {
        match self {
            Self::Forward => Activity::Forward,
            Self::Backward => Activity::Backward,
            Self::BackwardInput => Activity::BackwardInput,
            Self::BackwardWeight => Activity::BackwardWeight,
            Self::Recompute => Activity::Recompute,
            Self::Unshard | Self::GatherAfterStep => Activity::Gather,
            Self::Reduce | Self::ReduceLast | Self::AllReduce => Activity::Reduce,
            Self::Send | Self::Receive => Activity::Transfer,
            Self::OptimizerStep => Activity::Optimizer,
            Self::AddTied | Self::GradientNorm => Activity::Synchronization,
            Self::Reshard => Activity::Bookkeeping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_listed_in_order() {
        assert!(InstructionKind::ALL.iter().enumerate().all(|(index, &(kind, _))| kind as usize == index));
        assert_eq!(InstructionKind::ALL[15].0, InstructionKind::GatherAfterStep);
    }
}
