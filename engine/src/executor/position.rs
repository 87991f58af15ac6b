//! Where each rank is, visible to all, so that a stop can be reported with every rank's instruction.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use pipezero_schedule::Instruction;

/// Where a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Waiting for a command.
    #[default]
    Idle,
    /// At an instruction of a step.
    At {
        /// The step, from 1; 0 in an evaluation.
        step: u64,
        /// Its place in the rank's row.
        index: usize,
        /// The instruction.
        instruction: Instruction,
    },
    /// At the end of a step, waiting for transfers.
    Draining {
        /// The step.
        step: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => write!(f, "between steps"),
            Self::At { step: 0, index, instruction } => {
                write!(f, "evaluation, instruction {index}, {instruction}")
            }
            Self::At { step, index, instruction } => {
                write!(f, "step {step}, instruction {index}, {instruction}")
            }
            Self::Draining { step } => write!(f, "step {step}, waiting for the last transfers"),
        }
    }
}

/// The positions of all ranks.
#[derive(Debug)]
pub(crate) struct Positions(Vec<Mutex<Position>>);

impl Positions {
    pub(crate) fn new(num_ranks: usize) -> Self {
        Self(std::iter::repeat_with(Mutex::default).take(num_ranks).collect())
    }

    pub(crate) fn set(&self, rank: usize, position: Position) {
        *self.0[rank].lock().unwrap_or_else(PoisonError::into_inner) = position;
    }

    pub(crate) fn get(&self, rank: usize) -> Position {
        *self.0[rank].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
