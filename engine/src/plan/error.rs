//! Why a run cannot be planned.

use pipezero_models::ModelError;
use pipezero_partition::{BalanceError, GraphError, SplitError, UnitError};
use pipezero_schedule::generate::SizeError;
use pipezero_schedule::{LowerError, Violation};

use super::alternatives::{Change, Changes};
use crate::memory::Bytes;

/// An error of the plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The model cannot be built.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its layers are no chain.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// It cannot be split as asked.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// `unit_layers` is 0.
    #[error("`zero_optimization.unit_layers` is 0: a unit has at least 1 layer")]
    EmptyUnit,
    /// `resident_units` is 0.
    #[error(
        "`zero_optimization.resident_units` is 0: the unit in use is resident, so write 1 or more, or \"strict\""
    )]
    NoResidentUnit,
    /// The pattern of a partition by type.
    #[error("`parallel.partition`: {0}")]
    Pattern(String),
    /// It cannot be balanced as asked.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// Units cannot be cut as asked.
    #[error(transparent)]
    Units(#[from] UnitError),
    /// `resident_units` is to follow from the memory, which is not given.
    #[error(
        "`zero_optimization.resident_units` is \"auto\", which needs the memory of a rank; write `memory`"
    )]
    NoMemoryGiven,
    /// A rank needs more than `memory` gives it.
    #[error(
        "rank {rank} (stage {stage}) needs {}, but `memory` gives each rank {}{}",
        Bytes(*needs_bytes),
        Bytes(*limit_bytes),
        Changes(changes)
    )]
    RankMemory {
        /// The world rank with the largest peak.
        rank: usize,
        /// Its first stage.
        stage: usize,
        /// Its peak.
        needs_bytes: u64,
        /// What each rank has.
        limit_bytes: u64,
        /// Single changes with which every rank fits, the mildest first.
        changes: Vec<Change>,
    },
    /// The run's sequences are longer than the model's.
    #[error(
        "sequences of {seq_length} tokens, but the model knows {longest} positions; shorten the sequences"
    )]
    SequenceLength {
        /// T of the run.
        seq_length: usize,
        /// T of the model.
        longest: usize,
    },
    /// The schedule cannot be generated.
    #[error(transparent)]
    Generate(#[from] SizeError),
    /// The schedule cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The program breaks a rule; for a generated schedule that is a mistake of ours.
    #[error(transparent)]
    Violation(#[from] Box<Violation>),
}
