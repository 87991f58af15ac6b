//! A cluster of unlike data ranks: links that messages share, cores that ranks share.
//!
//! ```text
//! CheckedProgram + Costs + Cluster -> cluster::simulate -> ClusterTimeline: a Timeline for each data rank
//! ```
//!
//! [`simulate`](crate::simulate::simulate) plays one data rank for all, by longest paths. Here every world rank is
//! played, in the order of time, since what shares something depends on what else is under way:
//!
//! - messages at one port share it ([`Sharing`]), and each proceeds at the smallest of its shares;
//! - a gather or reduction starts when *all* data ranks have issued it, so one straggler delays its group, and at the
//!   norm all ranks;
//! - computes are slower while a message of their rank occupies a link, on slower ranks, with jitter, and where more
//!   ranks are at work on a host than it has cores ([`Cluster`]).
//!
//! Everything else is as in `simulate`: rows, waits, issue and completion, lanes in order, latencies that
//! occupy nothing. In a cluster whose ranks are alike and share nothing, every data rank's timeline is that
//! of `simulate`, bit for bit.
//!
//! # Exactness
//!
//! Times are whole ticks, and what is left of a work is a whole number of parts of a tick, so results are the same on
//! every machine. Three things are rounded. An end is the first tick at which a work is done: where rates change or
//! divide nothing evenly, it is late by less than a tick. A rank's speed gives its work to the nearest tick, and a
//! delay is rounded down. And rates are exact only if the least common multiple of their denominators is below 2^62,
//! as it is for up to 42 lanes at a port; beyond that they are rounded up by less than 2^-62 (`rates.rs` has what that
//! makes of ends).
//!
//! # Example
//!
//! A rank of half the speed holds up its pipeline and, at the norm, all others:
//!
//! ```
//! use pipezero_schedule::simulate::cluster::{self, Ratio, Cluster};
//! use pipezero_schedule::simulate::{Costs, MessageCost, UnitCosts};
//! use pipezero_schedule::{CheckedProgram, LowerOptions, Stage, UnitFacts, generate, lower};
//!
//! let order = generate::one_f_one_b(4, 8)?;
//! let units: Vec<_> = (0..4).map(|stage| UnitFacts::new(Stage(stage), 0)).collect();
//! let program = CheckedProgram::new(lower(&order, &units, &LowerOptions::ZERO_1)?)?;
//! let costs = Costs::uniform(&program, UnitCosts::of_compute(1, 1, 1), MessageCost::default());
//!
//! let mut two_pipelines = Cluster::alike(2);
//! assert_eq!(cluster::simulate(&program, &costs, &two_pipelines)?.makespan(), 33);
//! two_pipelines.speeds.insert(6, Ratio::new(1, 2));
//! // The slow rank's 8 micro-batches take 6 each; 3 before it and 3 after.
//! assert_eq!(cluster::simulate(&program, &costs, &two_pipelines)?.makespan(), 57);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod error;
mod grid;
mod load;
mod message_costs;
mod messages;
mod own_time;
mod play;
mod progress;
mod rates;
mod setting;
mod sharing;
mod timeline;

pub use error::ClusterError;
pub use setting::{Cluster, Computes, Cores, Jitter, Ratio};
pub use sharing::{Duplex, Sharing};
pub use timeline::ClusterTimeline;

use self::grid::Grid;
use self::load::Load;
use self::play::Play;
use self::sharing::Ports;
use crate::check::CheckedProgram;
use crate::simulate::Costs;

/// Plays a program on every rank of a cluster.
///
/// Time grows with the number of instructions of all world ranks, times the logarithm of how much is under way; where
/// ports are crowded, also with the number of messages at each, since each is slower when another comes.
///
/// # Errors
/// [`ClusterError`] if the costs are not of this program, the cluster is invalid, or times do not fit a `u64`.
pub fn simulate(
    program: &CheckedProgram,
    costs: &Costs,
    cluster: &Cluster,
) -> Result<ClusterTimeline, ClusterError> {
    let grid = Grid { program, data_degree: cluster.data_degree as usize };
    check::check(grid, costs, cluster)?;
    let ports = Ports::new(grid, cluster.sharing, cluster.ranks_per_node);
    let load = Load::new(grid, cluster, ports);
    check::check_times(grid, costs, cluster, load.longest())?;
    Ok(Play::new(grid, costs, cluster, load).run())
}

#[cfg(test)]
mod tests;
