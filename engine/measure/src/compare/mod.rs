//! A prediction beside what happened, from the whole step down to single instructions.
//!
//! ```text
//! costs -> simulate -> Prediction --+
//!                                   +-> Comparison: step, ranks, kinds, critical path
//! recorded steps -> Recording ------+
//! ```
//!
//! The executor runs the very program that is simulated, so prediction and measurement are compared instruction by instruction,
//! without any guess at what corresponds to what.

mod compared;
mod comparison;
mod kinds;
mod median;
mod observed;
mod path;
mod prediction;
mod prices;
mod ranks;
#[cfg(test)]
mod tests;
mod transit;
mod waits;

pub use compared::Compared;
pub use comparison::Comparison;
pub use kinds::{ComparedKind, Part};
pub use median::median_step;
pub use observed::observed_costs;
pub use path::Parting;
pub use prediction::Prediction;
pub use ranks::{ComparedBubble, ComparedBytes, ComparedGroup, ComparedRank};
