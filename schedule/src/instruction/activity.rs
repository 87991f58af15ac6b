//! What a step spends its time on: the kinds of instructions that pictures and summaries distinguish.

/// What an instruction spends time on.
///
/// Coarser than [`InstructionKind`](super::InstructionKind): reduce-scattering and all-reducing a gradient are one activity,
/// and so are sending and receiving a message.
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
    Synchronization,
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
        Self::Synchronization,
        Self::Bookkeeping,
    ];

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
            Self::Synchronization => "norm and tied weights",
            Self::Bookkeeping => "bookkeeping",
        }
    }
}
