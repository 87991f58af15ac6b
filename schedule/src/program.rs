//! A program: what every rank does in a step, as data.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::Instruction;
use crate::options::LowerOptions;

/// What a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Forward, backward, optimizer step.
    Training,
    /// Forward only.
    Evaluation,
}

/// The instructions of every pipeline rank, and what is needed to understand them.
///
/// Anything can be written down here; only a [`crate::CheckedProgram`] runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The units, their stages and their ranks.
    pub chain: Chain,
    /// Micro-batches of a step.
    pub num_micro_batches: u32,
    /// What the program computes.
    pub purpose: Purpose,
    /// The policies that the rows follow.
    pub options: LowerOptions,
    /// `rows[pipeline rank]`: what the rank does, in issue order.
    pub rows: Vec<Vec<Instruction>>,
}

impl Program {
    /// The ranks that have a row, ascending: in a checked program, all.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = PipelineRank> + use<> {
        (0..self.rows.len() as u32).map(PipelineRank)
    }

    /// The instructions of a rank in issue order.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn row(&self, rank: PipelineRank) -> &[Instruction] {
        &self.rows[rank.index()]
    }

    /// One instruction.
    ///
    /// # Panics
    /// If there is no such instruction.
    pub fn instruction(&self, id: InstructionId) -> Instruction {
        self.row(id.rank)[id.index]
    }
}
