//! What really happened in a step, beside what was predicted.
//!
//! ```text
//! Engine::recording -> StepReport::events -> Recorded -> DIR/trace/step-000002.json
//!                                               |          DIR/trace.json, to look at
//! Costs -> simulate -> Prediction ---------> Comparison: step, ranks, kinds, critical path
//! ```
//!
//! The executor runs the very program that the simulator plays, so both timelines have the same instructions, and
//! [`Comparison`] tells them apart one by one. Recording reads the clock two to five times for each instruction and
//! changes no number.

mod columns;
mod comparison;
mod consistent;
mod fault;
mod file;
mod fingerprint;
mod folder;
mod members;
mod moments;
mod observed;
mod picture;
mod recorded;
mod steps;
#[cfg(test)]
mod tests;

pub use comparison::{
    Compared, ComparedBubble, ComparedBytes, ComparedKind, ComparedRank, Comparison, Part, Parting,
    Prediction, median_step,
};
pub use fault::{Fault, Place};
pub use file::ParseError;
pub use folder::{TraceError, TraceFolder};
pub use moments::{MessageMoments, Moments};
pub use observed::observed_costs;
pub use picture::picture;
pub use recorded::Recorded;
pub use steps::{TracedSteps, TracedStepsError};
