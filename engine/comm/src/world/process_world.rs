//! Each rank is a process. A control channel connects them, and MPI or NCCL carries the data that ranks send each other.

use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::job_files;

use super::control_channel::ControlChannel;
use super::device::RanksOnDevice;
use super::error::WorldError;
use super::hosts::RanksOnHosts;
use super::{ClockOffset, Positions, World};
use crate::{CommError, Communicator, IsStopped};

/// Moves data between the ranks of processes: MPI or NCCL.
pub(super) trait Transport: Debug + Send + Sync {
    /// The rank's communicator.
    fn communicator(&self, rank: usize, is_stopped: IsStopped) -> Result<Box<dyn Communicator>, CommError>;

    /// What the rank computes on.
    fn device(&self, rank: usize) -> RanksOnDevice;

    /// Warnings about the connection.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// The clock that times the rank's events.
    fn now_ns(&self) -> u64;

    /// Sends the report of a failure to the others, if it can do so without the process of rank 0, which may be the one that has ended.
    fn report(&self, report: &[u8]);
}

/// A world of processes with one rank each.
pub struct ProcessWorld {
    transport: Box<dyn Transport>,
    channel: Arc<ControlChannel>,
    rank: usize,
    size: usize,
    on_hosts: RanksOnHosts,
}

impl Debug for ProcessWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessWorld").field("transport", &self.transport).finish_non_exhaustive()
    }
}

impl ProcessWorld {
    /// A world of `size` ranks, of which this process has `rank`.
    ///
    /// # Errors
    /// When the processes cannot tell each other on which hosts they are.
    pub(super) fn new(
        transport: impl Transport + 'static,
        channel: Arc<ControlChannel>,
        [rank, size]: [usize; 2],
    ) -> Result<Self, WorldError> {
        let on_hosts = RanksOnHosts::of_job(&channel).map_err(WorldError::not_connected);
        let on_hosts = or_stop(&channel, on_hosts)?;
        job_files::leave_connected();
        Ok(Self { transport: Box::new(transport), channel, rank, size, on_hosts })
    }
}

/// What a process that a channel connects with others has done to be one world with them. Where it fails, it stops the others, and the one that was not
/// stopped by another says why.
pub(super) fn or_stop<T>(channel: &ControlChannel, done: Result<T, WorldError>) -> Result<T, WorldError> {
    match done {
        Err(error) if !error.is_of_all() && channel.was_stopped_by_another() => {
            Err(WorldError::SaidByAnother)
        }
        Err(error) => {
            // Before this process ends, and with it perhaps what another has still to read.
            channel.stop();
            Err(error)
        }
        done => done,
    }
}

impl World for ProcessWorld {
    fn size(&self) -> usize {
        self.size
    }

    fn local_ranks(&self) -> Range<usize> {
        self.rank..self.rank + 1
    }

    fn on_hosts(&self) -> Option<RanksOnHosts> {
        Some(self.on_hosts)
    }

    fn local_ip(&self) -> std::io::Result<IpAddr> {
        self.channel.local_ip()
    }

    fn warnings(&self) -> Vec<String> {
        let of_hosts = self.on_hosts.warning().map(str::to_owned);
        of_hosts.into_iter().chain(self.transport.warnings().iter().cloned()).collect()
    }

    fn devices(&self) -> Vec<RanksOnDevice> {
        vec![self.transport.device(self.rank)]
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        assert!(rank == self.rank, "a process asks only for its own rank");
        let channel = Arc::clone(&self.channel);
        self.transport.communicator(rank, Arc::new(move || channel.is_stopped()))
    }

    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.channel.add_words(words)
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        self.channel.gather(message)
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        self.channel.broadcast(message)
    }

    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.channel.add_words_in_any_time(words)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.channel.clock_offset(|| self.transport.now_ns())
    }

    fn positions(&self) -> &Arc<Positions> {
        self.channel.positions()
    }

    fn stop(&self) {
        self.channel.stop();
    }

    fn is_stopped(&self) -> bool {
        self.channel.is_stopped()
    }

    fn has_ended(&self, rank: usize) -> bool {
        self.channel.has_ended(rank)
    }

    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        self.transport.report(&report);
        self.channel.exchange_failures(report, time)
    }
}
