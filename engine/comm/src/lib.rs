//! Connects ranks: one trait for operations between ranks ([`Communicator`]) with three backends (threads, MPI, NCCL); worlds, which make
//! communicators in one process or many (`world`); and buffers that are charged to a rank (`memory`).
//!
//! An operation is started without blocking and takes its buffer; [`Pending::wait`] returns it. Only sums of u64 values block: they end a step,
//! where all ranks wait anyway.
//!
//! Sums add the members in ascending rank order, `((r0 + r1) + r2) + ...`, so every backend gives the same bits, unless `comm.reduction` is
//! `"library"`. An all-reduce is a reduce-scatter by that rule followed by an all-gather.

mod communicator;
mod counting;
mod error;
mod exchange;
mod finish;
mod group;
pub mod memory;
#[cfg(feature = "mpi")]
mod mpi;
mod nccl;
mod operation;
mod part;
mod rendezvous;
mod shaping;
pub mod sync;
#[cfg(feature = "shuttle")]
pub mod testing;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod tests;
mod threads;
pub mod world;

pub(crate) use communicator::IsStopped;
pub use communicator::{Communicator, Pending, Started};
pub use counting::Counting;
pub use error::CommError;
pub use group::{Channel, Group};
#[cfg(feature = "mpi")]
pub use mpi::MpiError;
#[cfg(feature = "mpi")]
pub(crate) use mpi::{Processes, mpi_library_version};
pub(crate) use nccl::Nccl;
pub use nccl::{Lanes, TooManyLanes};
pub use operation::Operation;
pub use threads::Threads;
