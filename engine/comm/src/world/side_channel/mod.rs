//! What processes tell each other beside the data of their ranks: words, messages, clocks, where ranks are, stops and reports.
//!
//! The process of rank 0 listens on an address that every process is given, until all ranks have connected; nothing listens afterwards. Its
//! *hub* ([`hub`]) gets the frames ([`frame`]) of all processes, its own too, and answers them over the same TCP connections. Nothing that
//! grows with the model goes over them while ranks train.
//!
//! Who connects must greet as this program does, in its version, and be a rank that is missing; anything else is dropped and logged, or ends
//! the start with an error in every process. Every wait is bounded by the time-out of the run.
//!
//! With the process of the hub its threads end, and connections with them, whatever is still to be written. So it says that it ends, and waits until
//! the others have heard it, and with it all that came before.

mod channel;
mod connection;
mod error;
mod frame;
mod hall;
mod hub;
mod known;
mod member;
mod server;
mod shared;
#[cfg(test)]
mod tests;

pub use channel::SideChannel;
pub use error::SideChannelError;
pub(super) use hub::heirs;
pub use member::Member;
