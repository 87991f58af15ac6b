//! The simulator: when each instruction of a checked program starts and ends, from what each costs.
//!
//! ```text
//! CheckedProgram + Costs -> simulate -> Timeline -> makespan, spans, bubble by cause, memory over time, critical path
//! ```
//!
//! It follows the dependency graph that the executor follows ([`crate::Dependencies`]), and adds only time:
//!
//! - a rank computes one instruction after the other, in row order;
//! - an instruction of another lane is issued when the row reaches it, and starts when what it waits for has ended,
//!   all its members have joined, and its link is free;
//! - a link is occupied for a message's bytes; a latency delays the message and occupies nothing.
//!
//! Nothing is random and nothing is rounded: times are whole numbers, so that closed forms hold exactly.
//!
//! One data rank stands for all here. [`cluster`] plays each of them: ranks that are not alike, and messages that slow each
//! other down.
//!
//! # Words
//!
//! - A *lane* says in which order a rank's instructions run; a *link* carries messages, and may serve several lanes.
//! - A rank *issues* a message and *completes* it (`landing`), both in its own time. In between the message
//!   is *under way*: it *occupies* its link, and then arrives after the latency.
//! - A *synchronization* is a gradient norm or a tied addition: ranks stop until all have joined.
//! - An instruction's *index* is its position in the row of its rank. A *slot* is a buffer of activations, of
//!   nothing else.
//!
//! # Example
//!
//! 1F1B of four ranks and eight micro-batches takes `(m + p - 1) (T_F + T_B)`:
//!
//! ```
//! use pipezero_schedule::simulate::{Costs, MessageCost, UnitCosts, simulate};
//! use pipezero_schedule::{CheckedProgram, LowerOptions, Stage, UnitFacts, generate, lower};
//!
//! let order = generate::one_f_one_b(4, 8)?;
//! let units: Vec<_> = (0..4).map(|stage| UnitFacts::new(Stage(stage), 0)).collect();
//! let program = CheckedProgram::new(lower(&order, &units, &LowerOptions::ZERO_1)?)?;
//! let costs = Costs::uniform(&program, UnitCosts::of_compute(1, 1, 1), MessageCost::default());
//! assert_eq!(simulate(&program, &costs)?.makespan(), 33);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bubble;
pub mod cluster;
mod costs;
mod critical_path;
mod lanes;
mod memory;
mod play;
mod steady;
mod study;
mod synchronizations;
mod timeline;
mod wrong_length;

pub use bubble::{Bubble, IdleCause};
pub use costs::{Costs, CostsError, Links, MessageCost, UnitCosts};
pub use critical_path::{CriticalPath, PathStep, Spent, Why, critical_path};
pub use memory::{MemoryBytes, MemoryCategory, MemoryCosts, MemoryCurve, MemoryError, UnitMemory, memory};
pub use steady::{LongStep, Played, Steady, simulate_long};
pub use study::{PlayedOrder, RankTimes, Study, idle_share, study, study_long};
pub use timeline::{Span, Timeline};
pub use wrong_length::{Listed, WrongLength};

use crate::check::CheckedProgram;

/// Plays a program.
///
/// Time grows with the number of instructions; every instruction is touched a constant number of times.
///
/// # Errors
/// [`CostsError`] if the costs are not of this program's units and edges, or add up to more than a `u64` holds.
pub fn simulate(program: &CheckedProgram, costs: &Costs) -> Result<Timeline, CostsError> {
    costs.check(program)?;
    Ok(play::play(program, costs))
}

#[cfg(test)]
mod tests;
