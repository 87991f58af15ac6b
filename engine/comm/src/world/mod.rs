//! What connects the ranks of a run, in one process or in many.
//!
//! Every process runs the same program on the ranks that are local to it, and asks for anything that other processes have through
//! its [`World`]: words, byte messages, the others' reports when a rank has failed. What ranks send each other while they train goes
//! through their [`Communicator`]s.

mod address;
mod backend;
mod clock;
mod control_channel;
mod device;
mod error;
mod hosts;
pub mod instruction_text;
mod judged;
#[cfg(feature = "mpi")]
mod mpi;
mod nccl;
mod not_joined;
mod position;
mod process_world;
mod program;
mod secret;
mod spec;
mod threads;

use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use backend::{
    connect, connect_beside, connect_first, connect_job, connect_on, connect_ranks, connect_threads,
    mpi_library,
};
pub use clock::ClockOffset;
pub use control_channel::{ControlChannel, ControlChannelError, Member};
pub use device::{NamedDevice, Names, RanksOnDevice};
pub use error::WorldError;
pub use hosts::{OtherHosts, RanksOnHosts};
pub use judged::judged_by_first;
pub use nccl::missing_variable as missing_nccl_variable;
pub use not_joined::NotJoined;
pub use pipezero_files::host::LauncherError;
pub use position::{Position, Positions};
pub use process_world::ProcessWorld;
pub use spec::WorldSpec;
pub use threads::ThreadWorld;

use crate::{CommError, Communicator};

/// What connects all ranks, as one process sees it.
///
/// Every process calls [`World::add_words`], [`World::gather`], [`World::broadcast`] and [`World::clock_offset`] in the same
/// order.
/// None of them, but for [`World::add_words_in_any_time`], waits longer than the run's `comm.timeout_s`; each fails with [`CommError::Interrupted`] or [`CommError::Stopped`]
/// once the world was stopped. A process drops its world when it ends, for whatever reason: what others then still need of it fails with
/// [`CommError::Interrupted`], and nothing else does.
pub trait World: Debug + Send + Sync {
    /// Number of ranks, in all processes.
    fn size(&self) -> usize;

    /// The world ranks of this process, at least one. They are consecutive, and so are those of the processes.
    fn local_ranks(&self) -> Range<usize>;

    /// Whether all ranks are in this process.
    fn has_all_ranks(&self) -> bool {
        self.local_ranks().len() == self.size()
    }

    /// How its ranks lie on hosts; `None` where they are threads.
    fn on_hosts(&self) -> Option<RanksOnHosts> {
        None
    }

    /// The address of this host by which this process reaches that of rank 0.
    ///
    /// # Errors
    /// Where it does not reach it over a network.
    fn local_ip(&self) -> std::io::Result<IpAddr> {
        Err(std::io::ErrorKind::AddrNotAvailable.into())
    }

    /// What is worth knowing of how its ranks are connected: the same in all processes.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the local ranks compute on: the host's cores, if nothing else is said.
    fn devices(&self) -> Vec<RanksOnDevice> {
        vec![RanksOnDevice { on: NamedDevice::cpu(), number: 0, ranks: self.local_ranks().collect() }]
    }

    /// The communicator of a local rank, which asks for it once, in its own thread.
    ///
    /// # Errors
    /// When the rank cannot be connected with the others, or has no queue to compute on.
    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError>;

    /// Adds words over the processes (wrapping); each of them gets the sums.
    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError>;

    /// Sends a message to the process of rank 0. There the messages of all processes come back, in the order of their ranks; the other
    /// processes get nothing.
    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError>;

    /// Every process gets what the process of rank 0 gives.
    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError>;

    /// As [`World::add_words`], however long it takes until every process has called it: between processes of which some have other things to do.
    ///
    /// # Errors
    /// When the world was stopped, or a process has ended that had not called it.
    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError>;

    /// How far the clock that times the events of all ranks of this process is ahead of the one in the process of rank 0, where it is
    /// [`ClockOffset::ZERO`].
    fn clock_offset(&self) -> Result<ClockOffset, CommError>;

    /// Where each rank is, as far as this process knows: its own ranks write it, and the world writes what it hears of the others. They
    /// can be read after a stop too.
    fn positions(&self) -> &Arc<Positions>;

    /// A rank has failed: ends every wait in every process with [`CommError::Interrupted`] and refuses every start with
    /// [`CommError::Stopped`]. What has been exchanged can still be collected, at once where a link would delay it.
    fn stop(&self);

    /// Whether the world was stopped, by whichever process.
    fn is_stopped(&self) -> bool;

    /// Whether the process of a rank is known to have ended. One that is frozen, or that cannot be reached, has not.
    fn has_ended(&self, rank: usize) -> bool;

    /// After a stop: gives this process's failures to the others and returns theirs, in the order of their ranks, with its own among
    /// them; `None` for each process that has ended, or does not answer in this time. To wait for longer it is called again.
    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)>;
}
