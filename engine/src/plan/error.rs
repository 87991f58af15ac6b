//! Why a run cannot be planned.

use pipezero_models::ModelError;
use pipezero_partition::{GraphError, SplitError};
use pipezero_schedule::generate::SizeError;
use pipezero_schedule::{LowerError, Violation};

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
