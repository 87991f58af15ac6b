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
//!
//! ```no_run
//! use pipezero_config::{Resources, RunFile};
//! use pipezero_plan::costs::{DeviceSpec, Source, for_plan};
//! use pipezero_plan::Plan;
//! use pipezero_schedule::simulate::simulate;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (run, _) = RunFile::load("engine/configs/seed-48-layers.json".as_ref())?.resolve(Resources::this_host())?;
//! let plan = Plan::new(run)?;
//! let device = DeviceSpec::by_name("h100").ok_or("no such device")?;
//! let predicted = for_plan(&plan, Source::Analytic(&device))?;
//! let timeline = simulate(plan.training(), &predicted.costs)?;
//! println!("{} ns, {}", timeline.makespan() + predicted.step_overhead_ns, predicted.description);
//! # Ok(())
//! # }
//! ```

mod analytic;
mod assumption;
mod cluster;
mod core_times;
mod device_spec;
mod error;
mod file;
mod file_check;
mod file_error;
mod measured;
mod memory;
mod message_kind;
mod messages;
mod nanoseconds;
mod needs;
mod predicted;
mod prices;
mod route;
mod sizes;
mod slowness;
mod step;
mod straggling;
#[cfg(test)]
mod tests;
mod unit_key;
mod whole;
mod workload;

pub use assumption::Assumption;
pub use core_times::{CorePasses, CoreTimes, LayerKey};
pub use device_spec::{DeviceSpec, Network, NetworkLink};
pub use error::{Difference, PredictError};
pub use file::{COSTS_BYTES_MAX, COSTS_VERSION};
pub use file::{CostsFile, Host, MessageTimes, ModelSizes, PerElement, SizedTimes, UnitTimes, Workload};
pub use file_error::{CostsFileError, CostsFileRule, KeyFault};
pub use memory::memory_costs;
pub use message_kind::MessageKind;
pub(crate) use messages::GRADIENT_BYTES;
pub use messages::{Message, Messages, counted_elements, owned_elements};
pub use nanoseconds::Nanoseconds;
pub(crate) use predicted::peak_of_rank;
pub use predicted::{Predicted, Source, for_plan};
pub use prices::EdgeCosts;
pub use route::Route;
pub use slowness::RankSlowness;
pub(crate) use step::bubble_rate;
pub use step::{RankStep, Step};
pub use unit_key::UnitKey;
