//! Why a rank idles: each gap between two computes is attributed to what the second one waited for last.

use super::timeline::{Span, Timeline, is_synchronization};
use crate::check::CheckedProgram;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::{Instruction, Lane};

/// Why a rank does not compute: see the fields of [`Bubble`], of which each has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdleCause {
    /// [`Bubble::dependency`].
    Dependency,
    /// [`Bubble::transfer`].
    Transfer,
    /// [`Bubble::gather`].
    Gather,
    /// [`Bubble::reduce`].
    Reduce,
    /// [`Bubble::handling`].
    Handling,
    /// [`Bubble::tail`].
    Tail,
}

impl IdleCause {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Dependency, Self::Transfer, Self::Gather, Self::Reduce, Self::Handling, Self::Tail];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Its name for programs: that of its field.
    pub fn key(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Dependency => ("other stages", "dependency"),
            Self::Transfer => ("transfers", "transfer"),
            Self::Gather => ("gathers", "gather"),
            Self::Reduce => ("reductions", "reduce"),
            Self::Handling => ("issue, landing", "handling"),
            Self::Tail => ("end of step", "tail"),
        }
    }
}

/// The time of a step in which a rank does not compute, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bubble {
    /// A message was not made yet, or its receiver had no free buffer.
    pub dependency: u64,
    /// A message was being sent.
    pub transfer: u64,
    /// Weights were not gathered yet.
    pub gather: u64,
    /// A gradient buffer was not reduced yet.
    pub reduce: u64,
    /// Messages were issued and completed: the rank's own time for them.
    pub handling: u64,
    /// After the rank's last micro-batch: its last reductions, the other ranks, the norm, the gathers after the step.
    pub tail: u64,
}

impl Bubble {
    /// The time of a cause.
    pub fn of(self, cause: IdleCause) -> u64 {
        match cause {
            IdleCause::Dependency => self.dependency,
            IdleCause::Transfer => self.transfer,
            IdleCause::Gather => self.gather,
            IdleCause::Reduce => self.reduce,
            IdleCause::Handling => self.handling,
            IdleCause::Tail => self.tail,
        }
    }

    /// The sum over all causes.
    pub fn total(self) -> u64 {
        IdleCause::ALL.into_iter().map(|cause| self.of(cause)).sum()
    }
}

impl Timeline {
    /// Why a rank does not compute: with [`Timeline::busy`], the parts add up to the makespan.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn bubble(&self, program: &CheckedProgram, rank: PipelineRank) -> Bubble {
        let row = program.row(rank);
        let last_work = row.iter().rposition(|of| of.is_micro_batch_compute()).map_or(0, |last| last + 1);
        let mut bubble = Bubble::default();
        let (mut free, mut next) = (0, 0);
        for (index, (&instruction, span)) in row.iter().zip(self.row(rank)).enumerate() {
            if instruction.lane() != Lane::Compute {
                continue;
            }
            let idle = span.start - free;
            if index >= last_work {
                bubble.tail += if is_synchronization(instruction) { span.end - free } else { idle };
            } else if idle > 0 {
                let handling = self.held(rank, next..index + 1);
                bubble.handling += handling;
                self.attribute(program, rank.at(index), idle - handling, &mut bubble);
            }
            (free, next) = (span.end, index + 1);
        }
        bubble.tail += self.makespan() - free;
        bubble
    }

    /// Attributes a wait that ended with the start of a compute to what the compute waited for last.
    fn attribute(&self, program: &CheckedProgram, compute: InstructionId, waited: u64, bubble: &mut Bubble) {
        let waits = program.waits(compute).iter().map(|&wait| compute.rank.at(wait));
        let Some(last) = waits.max_by_key(|&wait| self.span(wait).end) else { return };
        match program.instruction(last).lane() {
            Lane::Gather => bubble.gather += waited,
            Lane::Reduce => bubble.reduce += waited,
            Lane::Edge(_) => {
                let on_its_way = self.span(last).end.saturating_sub(self.sets_out(program, last)).min(waited);
                bubble.dependency += waited - on_its_way;
                bubble.transfer += on_its_way;
            }
            Lane::Compute => bubble.dependency += waited,
        }
    }

    /// From when on a transfer only waits for its link: a receive when its message was made, a send when its receiver
    /// had a free buffer.
    fn sets_out(&self, program: &CheckedProgram, transfer: InstructionId) -> u64 {
        let Span { start, .. } = self.span(transfer);
        if !matches!(program.instruction(transfer), Instruction::Receive { .. }) {
            return start;
        }
        let made = program.peer(transfer).map(|send| {
            let spans = self.row(send.rank);
            program.waits(send).iter().map(|&wait| spans[wait].end).max().unwrap_or(0)
        });
        made.unwrap_or(start)
    }
}
