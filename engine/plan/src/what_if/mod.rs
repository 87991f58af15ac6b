//! What-if: a step of a plan on a cluster that differs, and a step of a schedule without a model.
//!
//! [`Simulation`] takes a plan, the source of its costs, and what is different: slow ranks, uneven computes, ports and
//! cores that ranks share. [`LoneSchedule`] needs no run: it takes the times of a rank.
//!
//! ```no_run
//! use pipezero_config::{Resources, RunFile};
//! use pipezero_plan::Plan;
//! use pipezero_plan::costs::{DeviceSpec, Source};
//! use pipezero_plan::what_if::{Ratio, Simulation, WhatIf};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = RunFile::load("engine/configs/seed-48-layers.json".as_ref())?;
//! let (plan, _) = Plan::from_file(&file, Resources::this_host())?;
//! let device = DeviceSpec::by_name("h100").ok_or("no such device")?;
//! let slow_rank = WhatIf { speeds: [(3, Ratio::new(4, 5))].into(), ..WhatIf::default() };
//! let simulation = Simulation::new(&plan, Source::Analytic(&device), Some(&slow_rank))?;
//! let times = simulation.changed().map(|changed| changed.times());
//! println!("{} s, {times:?} times as long as without", simulation.step().step_s());
//! # Ok(())
//! # }
//! ```

mod changes;
mod cluster_step;
mod device_diagnostic;
mod generator;
mod lone_schedule;
mod lone_schedule_error;
mod one_gradient_buffer;
mod program_size;
mod shared_cores;
mod simulation;
mod simulation_error;
#[cfg(test)]
mod tests;
mod utilisation;

pub use changes::{HostCores, WhatIf};
pub use cluster_step::ClusterStep;
pub use device_diagnostic::device_diagnostics;
pub use generator::{GeneratedSchedule, Generator};
pub use lone_schedule::LoneSchedule;
pub use lone_schedule_error::{LoneScheduleError, OrderRule};
pub use one_gradient_buffer::one_gradient_buffer;
pub use pipezero_config::order::OrderFileError;
/// What a [`WhatIf`] is made of.
pub use pipezero_schedule::simulate::cluster::{Duplex, Jitter, Ratio, Sharing};
pub use program_size::{MAX_SHOWN_FORWARDS, TooMany};
pub use simulation::{Changed, Simulation, in_use_bytes, memory_curves};
pub use simulation_error::SimulationError;
pub use utilisation::Utilisation;
