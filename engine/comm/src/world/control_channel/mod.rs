//! The control channel: what processes send each other besides the data of their ranks, over TCP. These are words, messages, clocks,
//! positions of ranks, stops and reports.
//!
//! The process of rank 0 listens on an address that every process is given. It stops listening once all ranks have connected. Its
//! *coordinator* ([`coordinator`]) receives the frames ([`frame`]) of all processes, its own included, and answers over the same TCP
//! connections. While ranks train, nothing that grows with the model goes over them.
//!
//! Both ends of a connection first prove that they know the job's secret ([`greeting`]). A connection whose other end cannot is dropped and logged, and
//! changes nothing else. Then the process must be of the same program and have ranks that are missing; if not, the start ends with an error in every
//! process. Every wait is bounded by the time-out of the run.
//!
//! When the process of the coordinator ends, its threads and connections end too, even if something is still unwritten. So it first says
//! that it ends, and waits until the others have received that and everything before it.

mod channel;
mod connect;
mod connections;
mod coordinator;
mod error;
mod frame;
mod greeters;
mod greeting;
mod known;
mod member;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod timed;

pub use channel::ControlChannel;
pub(super) use coordinator::fallback_reporters;
pub use error::ControlChannelError;
pub use member::Member;
