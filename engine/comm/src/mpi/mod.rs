//! Ranks are processes that send each other messages with MPI: any number of hosts, and the system's MPI library.
//!
//! - [`courier`]: the one thread of a process that calls MPI. It carries out all operations of the process's ranks at once, so that no lane
//!   waits for another; it starts messages without waiting and asks in turn which are done.
//! - [`operation under way`](carried): what one rank does for one operation, as *flows* of bytes ([`flow`]) from and to each other member.
//!   Every member sends each other member what that one needs, directly: sums are taken by their owner in ascending order of the members.
//! - [`announcement`]: before its data each member sends the others what it has started. So members that have started different operations
//!   find out, and data is received only where it fits.
//! - [`reports`]: how those that are left report failures if the process of rank 0 is gone.
//! - [`gone`]: who takes part no more.
//! - [`wire`]: the calls of MPI.

mod announcement;
mod carried;
mod communicator;
mod courier;
mod flow;
mod gone;
mod order;
mod reduction;
mod reports;
mod wire;

pub(crate) use communicator::Processes;
pub use wire::MpiError;
pub(crate) use wire::mpi_library_version;
