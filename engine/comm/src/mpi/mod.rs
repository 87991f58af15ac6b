//! Ranks are processes that send each other messages with MPI: any number of hosts, and the system's MPI library.
//!
//! - [`progress_thread`]: the one thread of a process that calls MPI. It carries out all operations of the process's ranks at the same
//!   time, so that no lane waits for another. It starts messages without waiting, and tests in turn which are done.
//! - [`in_flight`]: what one rank does for an operation in flight, as *flows* of bytes ([`flow`]) from and to each other member. Every
//!   member sends each other member directly what that one needs. The owner of a part sums it in ascending order of the members.
//! - [`announcement`]: before its data each member sends the others what it has started. So members that have started different operations
//!   notice it, and data is received only if it fits.
//! - [`reports`]: how processes report failures to each other after the process of rank 0 has ended.
//! - [`departed`]: which peers have left a world.
//! - [`wire`]: the calls of MPI.

mod announcement;
mod communicator;
mod departed;
mod flow;
mod in_flight;
mod order;
mod progress_thread;
mod reduction;
mod reports;
mod wire;

pub(crate) use communicator::Processes;
pub use wire::MpiError;
pub(crate) use wire::mpi_library_version;
