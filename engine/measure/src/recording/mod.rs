//! A recorded step: the events of all ranks, put together and checked in this one place.
//!
//! [`Recording`] has the [`Times`] of every instruction on every rank, and the messages between them: who takes part, and when
//! each was ready. Profiles, comparisons and trace files all read it; none of them reads events. Recording reads the clock two to
//! five times for each instruction and changes no number.

mod build;
mod check;
mod clocks;
mod events;
mod fault;
mod messages;
mod place;
mod recorded;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod times;

pub(crate) use events::{EventTimes, times_of_events};
pub use fault::Fault;
pub(crate) use messages::RecordedMessage;
pub use place::Place;
pub(crate) use place::computed_unit;
pub use recorded::Recording;
pub use times::Times;
pub(crate) use times::{Shape, makespan_ns};
