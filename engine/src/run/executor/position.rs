//! Where each rank is, readable by all threads, so that a stop is reported with every rank's instruction.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use pipezero_schedule::Instruction;

/// Where a rank is. Steps count from 1; 0 is an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Waiting for a command, or carrying out one that runs no program.
    #[default]
    Idle,
    /// Asking its source for a micro-batch.
    Reading {
        /// The step.
        step: u64,
        /// The micro-batch, from 0.
        micro_batch: usize,
    },
    /// At an instruction.
    At {
        /// The step.
        step: u64,
        /// Its index in the rank's row.
        index: usize,
        /// The instruction.
        instruction: Instruction,
    },
    /// At an instruction that waits for an earlier one to complete.
    Waiting {
        /// The step.
        step: u64,
        /// Its index in the rank's row.
        index: usize,
        /// The instruction.
        instruction: Instruction,
        /// The operation that is still in flight.
        waits_for: Instruction,
    },
    /// At the end of a step, with an operation still in flight.
    Draining {
        /// The step.
        step: u64,
        /// The operation.
        waits_for: Instruction,
    },
    /// At the end of an evaluation.
    AddingLosses,
    /// Sending the messages of a probe.
    Probing {
        /// The first of what it sends at once, if it sends any.
        instruction: Option<Instruction>,
        /// Elements of each message.
        num_elements: usize,
    },
}

impl Position {
    /// The step, which is the same for all ranks that fail for the same reason.
    pub(crate) fn step(self) -> Option<Step> {
        match self {
            Self::At { step, .. } => Some(Step(step)),
            Self::AddingLosses => Some(Step(0)),
            _ => None,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Idle => write!(f, "outside a step"),
            Self::Reading { step, micro_batch } => {
                write!(f, "{}, reading micro-batch {micro_batch}", Step(step))
            }
            Self::At { step, index, instruction } => {
                write!(f, "{}, instruction {index} ({instruction})", Step(step))
            }
            Self::Waiting { step, index, instruction, waits_for } => {
                let step = Step(step);
                write!(f, "{step}, instruction {index} ({instruction}, which needs {waits_for})")
            }
            Self::Draining { step, waits_for } => {
                write!(f, "the end of {} ({waits_for} is still in flight)", Step(step))
            }
            Self::AddingLosses => write!(f, "evaluation, adding up the losses"),
            Self::Probing { instruction: Some(instruction), num_elements } => {
                write!(f, "a probe of {instruction} with {num_elements} elements")
            }
            Self::Probing { instruction: None, .. } => write!(f, "a probe of what others send"),
        }
    }
}

/// A step as reports name it.
pub(crate) struct Step(u64);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "evaluation"),
            step => write!(f, "step {step}"),
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
