//! What a step spends its time on, in words for people: the kinds of instructions that pictures and summaries tell apart.
//!
//! Coarser than [`InstructionKind`]: whether a gradient is reduce-scattered or all-reduced, a message sent or received,
//! is one activity each.
//!
//! [`InstructionKind`]: crate::instruction::InstructionKind

use crate::instruction::Instruction;

/// What an instruction does with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
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
    /// `UNSHARD`, `GATHER_STEP`
    Gather,
    /// `REDUCE`, `REDUCE_LAST`, `ALL_REDUCE`
    Reduce,
    /// `SEND`, `RECV`
    Transfer,
    /// `STEP`
    Optimizer,
    /// `ADD_TIED`, `GRAD_NORM`
    Meeting,
    /// `RESHARD`, which takes no time.
    Bookkeeping,
}

impl Activity {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 11] = [
        Self::Forward,
        Self::Backward,
        Self::BackwardInput,
        Self::BackwardWeight,
        Self::Recompute,
        Self::Gather,
        Self::Reduce,
        Self::Transfer,
        Self::Optimizer,
        Self::Meeting,
        Self::Bookkeeping,
    ];

    /// What an instruction does.
    pub fn of(instruction: Instruction) -> Self {
        match instruction {
            Instruction::Forward { .. } => Self::Forward,
            Instruction::Backward { .. } => Self::Backward,
            Instruction::BackwardInput { .. } => Self::BackwardInput,
            Instruction::BackwardWeight { .. } => Self::BackwardWeight,
            Instruction::Recompute { .. } => Self::Recompute,
            Instruction::Unshard { .. } | Instruction::GatherAfterStep { .. } => Self::Gather,
            Instruction::Reduce { .. } | Instruction::ReduceLast { .. } | Instruction::AllReduce { .. } => {
                Self::Reduce
            }
            Instruction::Send { .. } | Instruction::Receive { .. } => Self::Transfer,
            Instruction::OptimizerStep { .. } => Self::Optimizer,
            Instruction::AddTied { .. } | Instruction::GradientNorm => Self::Meeting,
            Instruction::Reshard { .. } => Self::Bookkeeping,
        }
    }

    /// Its name in legends and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::BackwardInput => "input gradient",
            Self::BackwardWeight => "weight gradient",
            Self::Recompute => "recompute",
            Self::Gather => "gather",
            Self::Reduce => "reduce",
            Self::Transfer => "transfer",
            Self::Optimizer => "optimizer",
            Self::Meeting => "norm and tied weights",
            Self::Bookkeeping => "bookkeeping",
        }
    }
}
