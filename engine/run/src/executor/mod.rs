//! Runs a checked program on one rank.
//!
//! The executor decides nothing. It goes through its row; before each instruction it waits for what the program's
//! dependency graph names, then does the one thing that the instruction says. Instructions of the compute lane run
//! to their end; the others are issued, and completed when something waits for them.
//!
//! Only a [`Probe`], which sends messages to measure links, runs without a program. It cannot hang, because every rank
//! starts all its messages of a round before it waits for any of them.

mod activations;
mod asked_logits;
mod batch_layout;
mod batch_logits;
mod boundary;
mod compute;
mod edges;
mod error;
mod find_not_finite;
mod first_not_finite;
mod gradients;
mod halves;
mod in_flight;
mod lanes;
mod logits;
mod logits_of_batch;
mod not_finite;
mod parameters;
mod probe;
mod rank;
mod read_fault;
mod read_weights;
mod recorder;
mod reserve;
mod row;
mod scratch;
mod shapes;
mod staging;
mod state;
mod step;
mod step_encoder_inputs;
mod step_results;
mod step_sums;
mod step_tokens;
mod sums;
mod tail;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;
mod to_rank_zero;
mod tokens_digest;
mod waited;
mod watch;

pub use batch_layout::batch_layout;
pub use batch_logits::BatchLogits;
pub(crate) use error::ReportedFailure;
pub use error::{Cause, CauseKind, RankFailure};
pub(crate) use not_finite::{Findings, NotFinite};
pub use probe::{Probe, ProbedMessage};
pub(crate) use rank::Rank;
pub(crate) use read_weights::ReadWeights;
pub use recorder::{EventKind, RecordedEvent};
pub(crate) use scratch::scratch_bytes;
pub(crate) use staging::FileToWrite;
pub(crate) use step::{RankOutcome, RankReport, StepInputs};
pub(crate) use step_sums::StepRecord;
pub(crate) use waited::Waited;
