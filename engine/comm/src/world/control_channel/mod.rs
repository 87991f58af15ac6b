//! The control channel: what processes send each other besides the data of their ranks, over TCP. These are words, messages, clocks,
//! positions of ranks, stops and reports.
//!
//! The process of rank 0 listens on an address that every process is given. It stops listening once all ranks have connected. Its
//! *coordinator* ([`coordinator`]) receives the frames ([`frame`]) of all processes, its own included, and answers over the same TCP
//! connections. While ranks train, nothing that grows with the model goes over them.
//!
//! Who connects must greet as this program does, in its version, and be a rank that is missing; anything else is dropped and logged, or ends
//! the start with an error in every process. Every wait is bounded by the time-out of the run.
//!
//! When the process of the coordinator ends, its threads and connections end too, even if something is still unwritten. So it first says
//! that it ends, and waits until the others have received that and everything before it.

mod channel;
mod connect;
mod connections;
mod coordinator;
mod error;
mod frame;
mod known;
mod member;
mod server;
mod shared;
#[cfg(test)]
mod tests;

pub use channel::ControlChannel;
pub(super) use coordinator::fallback_reporters;
pub use error::ControlChannelError;
pub use member::Member;
