//! What happened: steps as their ranks recorded them, what their parts cost, and how a prediction compares.
//!
//! ```text
//! StepReport::events -> Recording --> profile -> CostsFile
//!                        ^     |  \-> compare -> Comparison <- Prediction <- simulate
//!                        +trace+      DIR/trace/step-000002.json
//! ```

pub mod compare;
mod core_times;
pub mod profile;
pub mod recording;
pub mod trace;

pub use core_times::{CoreTimesError, core_times};
