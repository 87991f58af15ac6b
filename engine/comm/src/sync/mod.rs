//! What the threads of a process share, and how they wait for each other: whoever can be tested under every order of threads takes it from
//! here.
//!
//! Ordinarily it is the standard library's (`system.rs`). With the feature `shuttle`, which is for tests alone, it comes from the crate of
//! that name (`scheduled.rs`): threads then run one at a time, in an order that a test draws, and the crate reports it when all of them wait
//! for each other. A clock runs there only when a test lets time pass, so a time-out is an event like any other, and a wait that nothing but
//! its time-out could end is such a report.

#[cfg(feature = "shuttle")]
mod scheduled;
#[cfg(not(feature = "shuttle"))]
mod system;
#[cfg(feature = "shuttle")]
pub mod testing;

#[cfg(feature = "shuttle")]
pub(crate) use scheduled::*;
#[cfg(not(feature = "shuttle"))]
pub(crate) use system::*;
