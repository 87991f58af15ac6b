//! A compute order: what generators make and lowering turns into a program.
//!
//! It says in which order each rank computes its stages' micro-batches and nothing about units, weights or messages.
//! So generators are short, and all communication is decided once, in [`mod@crate::lower`].

use alloc::vec::Vec;
use core::fmt;

use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::Instruction;
use crate::placement::Placement;

/// Which part of a micro-batch's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComputeKind {
    /// `F`.
    Forward,
    /// `B`: input and weight gradient, unit by unit.
    Backward,
    /// `I`: input gradient alone.
    BackwardInput,
    /// `W`: weight gradient alone.
    BackwardWeight,
}

impl ComputeKind {
    /// All of them, in the order of the enum.
    pub(crate) const ALL: [Self; 4] =
        [Self::Forward, Self::Backward, Self::BackwardInput, Self::BackwardWeight];

    /// The kind, unit and micro-batch of an `F`, `B`, `I` or `W`; `None` for other instructions.
    pub(crate) fn of(instruction: Instruction) -> Option<(Self, Unit, MicroBatch)> {
        Some(match instruction {
            Instruction::Forward { unit, micro_batch } => (Self::Forward, unit, micro_batch),
            Instruction::Backward { unit, micro_batch } => (Self::Backward, unit, micro_batch),
            Instruction::BackwardInput { unit, micro_batch } => (Self::BackwardInput, unit, micro_batch),
            Instruction::BackwardWeight { unit, micro_batch } => (Self::BackwardWeight, unit, micro_batch),
            _ => return None,
        })
    }

    /// A unit's part of such work.
    pub(crate) fn instruction(self, unit: Unit, micro_batch: MicroBatch) -> Instruction {
        match self {
            Self::Forward => Instruction::Forward { unit, micro_batch },
            Self::Backward => Instruction::Backward { unit, micro_batch },
            Self::BackwardInput => Instruction::BackwardInput { unit, micro_batch },
            Self::BackwardWeight => Instruction::BackwardWeight { unit, micro_batch },
        }
    }

    /// Whether it is half a backward: `I` or `W`.
    pub(crate) fn is_half(self) -> bool {
        matches!(self, Self::BackwardInput | Self::BackwardWeight)
    }

    /// PyTorch's letter.
    pub fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Backward => 'B',
            Self::BackwardInput => 'I',
            Self::BackwardWeight => 'W',
        }
    }
}

/// One stage's work on one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageAction {
    /// Which part.
    pub kind: ComputeKind,
    /// The stage.
    pub stage: Stage,
    /// The micro-batch.
    pub micro_batch: MicroBatch,
}

/// PyTorch's form: `1F0` is the forward of stage 1, micro-batch 0.
impl fmt::Display for StageAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.stage.0, self.kind.letter(), self.micro_batch.0)
    }
}

/// The compute order of every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeOrder {
    /// Where the stages lie.
    pub placement: Placement,
    /// Micro-batches of a step.
    pub num_micro_batches: u32,
    /// `rows[pipeline rank]`: what the rank computes, in order.
    pub rows: Vec<Vec<StageAction>>,
}

/// What ends the need for a forward's activations: the weight gradient reads them too.
const FREED_BY_WEIGHT: [ComputeKind; 2] = [ComputeKind::Backward, ComputeKind::BackwardWeight];
const FREED_BY_INPUT: [ComputeKind; 2] = [ComputeKind::Backward, ComputeKind::BackwardInput];

impl ComputeOrder {
    /// Whether the order has a backward, so that the step ends with a tail.
    pub fn has_backward(&self) -> bool {
        self.rows.iter().flatten().any(|action| action.kind != ComputeKind::Forward)
    }

    /// Whether every stage runs its backwards in ascending micro-batch order: input gradients (`B`, `I`) and weight
    /// gradients (`B`, `W`) each.
    ///
    /// Gradients are summed in that order, so results are bit-identical over all orders that ascend. Every generator
    /// makes such an order; one read from a file may be another.
    pub fn is_ascending(&self) -> bool {
        self.first_descending().is_none()
    }

    /// The first backward, rank by rank, that comes after one of a later micro-batch; none if the order ascends
    /// ([`ComputeOrder::is_ascending`]).
    pub fn first_descending(&self) -> Option<StageAction> {
        use ComputeKind::{Backward, BackwardInput, BackwardWeight};
        // `[stage]`: the micro-batch that each ran last, of input and of weight gradients; a stage lies on one rank.
        let mut last = vec![[None; 2]; self.placement.num_stages()];
        let mut descends = |action: &StageAction| {
            let kinds = [[Backward, BackwardInput], [Backward, BackwardWeight]];
            let mut of_kinds = kinds.iter().zip(&mut last[action.stage.index()]);
            of_kinds.any(|(kinds, last)| {
                kinds.contains(&action.kind)
                    && last.replace(action.micro_batch).is_some_and(|last| last >= action.micro_batch)
            })
        };
        self.rows.iter().flatten().find(|action| descends(action)).copied()
    }

    /// The first micro-batch alone, in the same order on the same ranks: what a step of one micro-batch runs.
    ///
    /// Micro-batches do not depend on each other, so it runs if the whole order does.
    pub fn first_micro_batch(&self) -> Self {
        let of_first = |row: &Vec<StageAction>| {
            row.iter().filter(|action| action.micro_batch == MicroBatch(0)).copied().collect()
        };
        Self {
            placement: self.placement.clone(),
            num_micro_batches: 1,
            rows: self.rows.iter().map(of_first).collect(),
        }
    }

    /// The first half of a backward, `I` or `W`, if any backward is split.
    pub fn first_half(&self) -> Option<StageAction> {
        self.rows.iter().flatten().find(|action| action.kind.is_half()).copied()
    }

    /// The largest number of micro-batches in flight on a stage: forward begun, backward (or `W`) not ended.
    ///
    /// For an order without backward nothing stays in flight: 0.
    pub fn in_flight(&self, stage: Stage) -> usize {
        self.most_in_flight(self.placement.rank(stage), |of| of == stage, FREED_BY_WEIGHT)
    }

    /// The largest number of activations in flight on a rank, each of one stage and micro-batch, over all its stages.
    ///
    /// At most the sum of [`ComputeOrder::in_flight`] over the rank's stages: they need not peak together.
    pub fn in_flight_on(&self, rank: PipelineRank) -> usize {
        self.most_in_flight(rank, |_| true, FREED_BY_WEIGHT)
    }

    /// As [`ComputeOrder::in_flight_on`], but only until the input gradient: what the zero-bubble papers count.
    pub fn in_flight_until_input(&self, rank: PipelineRank) -> usize {
        self.most_in_flight(rank, |_| true, FREED_BY_INPUT)
    }

    /// The largest number of micro-batches of a stage between their `I` and their `W`; 0 where every backward is whole.
    pub fn num_weight_input_buffers(&self, stage: Stage) -> usize {
        let rank = self.placement.rank(stage);
        let freed_by = [ComputeKind::BackwardWeight; 2];
        self.most_taken(rank, |of| of == stage, ComputeKind::BackwardInput, freed_by)
    }

    fn most_in_flight(
        &self,
        rank: PipelineRank,
        counts: impl Fn(Stage) -> bool,
        freed_by: [ComputeKind; 2],
    ) -> usize {
        if self.has_backward() { self.most_taken(rank, counts, ComputeKind::Forward, freed_by) } else { 0 }
    }

    /// The most micro-batches at once that one kind of action has taken up and others have not freed.
    fn most_taken(
        &self,
        rank: PipelineRank,
        counts: impl Fn(Stage) -> bool,
        taken_by: ComputeKind,
        freed_by: [ComputeKind; 2],
    ) -> usize {
        let (mut current, mut largest) = (0usize, 0);
        for action in self.rows[rank.index()].iter().filter(|action| counts(action.stage)) {
            if action.kind == taken_by {
                current += 1;
            } else if freed_by.contains(&action.kind) {
                current = current.saturating_sub(1);
            }
            largest = largest.max(current);
        }
        largest
    }
}
