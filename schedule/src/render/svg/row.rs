//! The rows of a rank, and the instructions that they show.

use alloc::vec::Vec;

use super::gantt::{Gantt, Shown};
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};
use crate::simulate::Span;

/// A row of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Compute,
    Gather,
    Reduce,
    Send,
    Receive,
}

impl Row {
    const ALL: [Self; 5] = [Self::Compute, Self::Gather, Self::Reduce, Self::Send, Self::Receive];

    /// The row of an instruction. The edges of a rank share two: a rank of many stages has dozens of them.
    pub(super) fn of(instruction: Instruction) -> Self {
        match (instruction.lane(), instruction) {
            (Lane::Compute, _) => Self::Compute,
            (Lane::Gather, _) => Self::Gather,
            (Lane::Reduce, _) => Self::Reduce,
            (Lane::Edge(_), Instruction::Send { .. }) => Self::Send,
            (Lane::Edge(_), _) => Self::Receive,
        }
    }

    /// The rows in which some rank has something to show.
    pub(super) fn used_by(gantt: &Gantt<'_>) -> Vec<Self> {
        let is_used = |row: &Self| {
            gantt.program.ranks().any(|rank| shown(gantt, rank).any(|(of, _)| Self::of(of) == *row))
        };
        Self::ALL.into_iter().filter(is_used).collect()
    }

    /// Its name: the verb for what a rank does in it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Gather => "gather",
            Self::Reduce => "reduce",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// What is shown of a rank, by its row; what takes no time is not.
pub(super) fn shown<'a>(
    gantt: &Gantt<'a>,
    rank: PipelineRank,
) -> impl Iterator<Item = (Instruction, Span)> + use<'a> {
    let &Gantt { program, timeline, shown, .. } = gantt;
    let takes_time = |(_, span): &(Instruction, Span)| span.end > span.start;
    let all = program.row(rank).iter().copied().zip(timeline.row(rank).iter().copied());
    all.filter(takes_time).filter(move |(of, _)| shown == Shown::WholeStep || of.micro_batch().is_some())
}
