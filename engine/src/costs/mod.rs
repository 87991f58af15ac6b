//! Where the simulator's times come from: a costs file that was measured, or an analytic model of a device.
//!
//! ```text
//! costs file (measured) --+
//!                         +-> for_plan -> what every instruction of the plan's program costs -> simulate
//! device (analytic) ------+
//! ```
//!
//! Times are whole nanoseconds. A costs file says what units and messages cost on the machine that it was measured on, by
//! what they consist of, so that it serves other grids, schedules, ZeRO levels and unit sizes of the same model too.

mod file;
mod file_error;
mod ns;

pub use file::{
    COSTS_VERSION, CostsFile, GptSizes, Host, MessageKind, MessageTimes, ModelSizes, PerElement, SizedTimes,
    TimedSizes, UnitTimes, Workload,
};
pub use file_error::{CostsFileError, CostsFileRule};
pub use ns::TIME_NS_MAX;
