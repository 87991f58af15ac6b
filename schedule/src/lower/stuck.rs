//! Which ranks wait for which others when no rank of an order can go on.

use alloc::vec::Vec;

use crate::id::PipelineRank;
use crate::instruction::Instruction;

/// What a compute that cannot start is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lack {
    /// The message that it reads, which the awaited compute makes.
    Message,
    /// A receive buffer for a message that was made, which the awaited compute empties.
    Buffer,
}

impl Lack {
    /// What stands between "waits" and the awaited compute in a message.
    pub(crate) fn until(self) -> &'static str {
        match self {
            Self::Message => "for",
            Self::Buffer => "for a receive buffer, until",
        }
    }
}

/// A rank of a cycle: each waits for a compute that the next one runs only after its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckRank {
    /// The rank.
    pub rank: PipelineRank,
    /// What it cannot start.
    pub instruction: Instruction,
    /// What it lacks for that.
    pub lack: Lack,
    /// The compute that it waits for, of the next rank: the one which that cannot start, or one that comes later.
    pub awaited: Instruction,
}

/// The cycle into which the lowest stuck rank leads; empty if a rank waits for a compute that no rank would run.
///
/// `stuck[rank]` is what a rank cannot start, with the rank that it waits for, `None` if it has ended; `left[rank]` is what
/// it has not run.
pub(super) fn cycle(stuck: &[Option<(StuckRank, PipelineRank)>], left: &[&[Instruction]]) -> Vec<StuckRank> {
    let mut seen_at = vec![None; stuck.len()];
    let mut path: Vec<StuckRank> = Vec::new();
    let mut next = stuck.iter().copied().flatten().next();
    while let Some((of, holder)) = next {
        if let Some(start) = seen_at[of.rank.index()].replace(path.len()) {
            let mut cycle = path.split_off(start);
            // Shown from a rank that lacks a message: that explains more than a lack of buffers.
            let begin = cycle.iter().position(|of| of.lack == Lack::Message).unwrap_or(0);
            cycle.rotate_left(begin);
            return cycle;
        }
        path.push(of);
        next = stuck[holder.index()].filter(|_| left[holder.index()].contains(&of.awaited));
    }
    Vec::new()
}
