//! Recorded steps on disk: written and read as JSON, and drawn for viewers of traces.

mod file;
mod fingerprint;
mod folder;
mod picture;
mod steps;
#[cfg(test)]
mod tests;

pub use file::ParseError;
pub use folder::{TraceError, TraceFolder};
pub use picture::picture;
pub use steps::{TracedSteps, TracedStepsError};
