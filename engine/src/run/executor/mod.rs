//! Runs a checked program on one rank.
//!
//! The executor decides nothing. It goes through its row; before each instruction it waits for what the program's
//! dependency graph names, then does the one thing that the instruction says. Instructions of the compute lane run
//! here and now; the others are started and end while later ones run.
//!
//! One thing runs without a program: a [`Probe`] of messages alone, which measures links. It cannot hang: every rank starts all
//! its messages of a round before it waits for any of them.

mod activations;
mod compute;
mod edges;
mod error;
mod halves;
mod lanes;
mod parameters;
mod position;
mod probe;
mod rank;
mod record;
mod recorder;
mod step_tokens;
mod tail;
mod waited;

pub use error::{Cause, RankFailure};
pub use position::Position;
pub(crate) use position::Positions;
pub(crate) use probe::{Probe, ProbedMessage};
pub(crate) use rank::{Rank, RankOutcome, StepInputs};
pub use recorder::{Event, EventKind};
pub(crate) use waited::Waited;
