//! When each instruction started and ended.

use alloc::vec::Vec;
use core::ops::Range;

use crate::check::CheckedProgram;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::{Instruction, Lane};

/// From start to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it started; a transfer when both of its ends were issued and its link was free.
    pub start: u64,
    /// When it ended: a receive when its message had arrived, a send when its link was free again.
    pub end: u64,
}

/// When each instruction of a program started and ended, in the unit of the costs, from the start of the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// `[rank][index]`
    pub(super) spans: Vec<Vec<Span>>,
    /// `[rank]`
    pub(super) ends: Vec<u64>,
    /// `[rank][index]`: what messages took of the rank's own time at an instruction: completing those that it
    /// waited for, and issuing it. Empty if it was not recorded.
    pub(super) held: Vec<Vec<u64>>,
}

impl Timeline {
    /// The timeline of spans that were measured: `[rank][index]`. What messages took of a rank's own time is not
    /// recorded.
    pub fn from_spans(spans: Vec<Vec<Span>>) -> Self {
        let end = |row: &Vec<Span>| row.iter().map(|span| span.end).max().unwrap_or(0);
        Self { ends: spans.iter().map(end).collect(), spans, held: Vec::new() }
    }

    /// The instructions of a rank, by their position in its row.
    ///
    /// # Panics
    /// If there is no such rank; so do the other methods that take one, or an instruction.
    pub fn row(&self, rank: PipelineRank) -> &[Span] {
        &self.spans[rank.index()]
    }

    /// One instruction.
    pub fn span(&self, of: InstructionId) -> Span {
        self.spans[of.rank.index()][of.index]
    }

    /// When a rank had ended its row and completed the messages that were still under way.
    pub fn end(&self, rank: PipelineRank) -> u64 {
        self.ends[rank.index()]
    }

    /// When everything had ended.
    pub fn makespan(&self) -> u64 {
        self.ends.iter().copied().max().unwrap_or(0)
    }

    /// What messages took of a rank's own time at the instructions of a part of its row.
    pub(super) fn held(&self, rank: PipelineRank, part: Range<usize>) -> u64 {
        self.held.get(rank.index()).map_or(0, |held| held[part].iter().sum())
    }

    /// From a rank's first compute of a micro-batch to its last: its part of the step before the gradient norm, in
    /// which all ranks take part. The zero-bubble papers call the longest of them the cost of a step.
    pub fn rank_span(&self, program: &CheckedProgram, rank: PipelineRank) -> u64 {
        let row = program.row(rank).iter().zip(self.row(rank));
        let mut spans = row.filter(|(of, _)| of.is_micro_batch_compute()).map(|(_, span)| *span);
        let Some(first) = spans.next() else { return 0 };
        spans.next_back().unwrap_or(first).end - first.start
    }

    /// The longest [`Timeline::rank_span`].
    pub fn longest_rank_span(&self, program: &CheckedProgram) -> u64 {
        program.ranks().map(|rank| self.rank_span(program, rank)).max().unwrap_or(0)
    }

    /// How long a rank computes.
    pub fn busy(&self, program: &CheckedProgram, rank: PipelineRank) -> u64 {
        let row = program.row(rank).iter().zip(self.row(rank));
        let computes = row.filter(|(of, _)| of.lane() == Lane::Compute && !is_synchronization(**of));
        computes.map(|(_, span)| span.end - span.start).sum()
    }
}

/// Whether an instruction waits on the compute lane for other ranks.
pub(super) fn is_synchronization(instruction: Instruction) -> bool {
    matches!(instruction, Instruction::AddTied { .. } | Instruction::GradientNorm)
}
