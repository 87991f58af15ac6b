//! Each rank is a process of a job that the system's MPI has started.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::{Host, Queue};

use super::error::WorldError;
use super::side_channel::{Member, SideChannel, SideChannelError};
use super::{ClockOffset, Positions, World, program};
use crate::host::{Launched, Master};
use crate::run::comm::{CommError, Communicator, Processes};

/// Bytes of an address as text, or of why there is none.
const ADDRESS_BYTES: usize = 512;
/// How long processes may take to find each other at least: they start on many hosts.
const START_TIME: Duration = Duration::from_secs(60);

/// How long processes wait for each other at most.
#[derive(Clone, Copy, Debug)]
struct Waits {
    longest: Duration,
    /// Until all are there.
    to_start: Duration,
}

/// A world of processes with one rank each.
pub struct MpiWorld {
    processes: Processes,
    channel: Arc<SideChannel>,
}

impl Debug for MpiWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MpiWorld").field("processes", &self.processes).finish_non_exhaustive()
    }
}

impl MpiWorld {
    /// The world of the job that this process belongs to. All its processes call it as often, and wait for each other.
    ///
    /// The process of rank 0 listens for the others on `port`; if none is given, on the one that the launcher names, or else on any that is free.
    ///
    /// # Errors
    /// When MPI cannot be started, or the processes cannot be connected.
    pub fn of_job(timeout: Duration, port: Option<u16>) -> Result<Self, WorldError> {
        Ok(Self::of_first(usize::MAX, timeout, port)?.expect("each process is one of all"))
    }

    /// As [`MpiWorld::of_job`], of the first so many ranks alone; `None` in the processes of the others, which call it too.
    ///
    /// # Errors
    /// As [`MpiWorld::of_job`].
    pub fn of_first(
        num_ranks: usize,
        timeout: Duration,
        port: Option<u16>,
    ) -> Result<Option<Self>, WorldError> {
        Self::connected(num_ranks, Waits { longest: timeout, to_start: timeout.max(START_TIME) }, port)
    }

    /// As [`MpiWorld::of_first`], of processes that have found each other before: none waits longer than `timeout` for the others to come.
    ///
    /// # Errors
    /// As [`MpiWorld::of_job`].
    pub(crate) fn of_first_again(
        num_ranks: usize,
        timeout: Duration,
        port: Option<u16>,
    ) -> Result<Option<Self>, WorldError> {
        Self::connected(num_ranks, Waits { longest: timeout, to_start: timeout }, port)
    }

    fn connected(num_ranks: usize, waits: Waits, port: Option<u16>) -> Result<Option<Self>, WorldError> {
        let not_connected = |error: &dyn ToString| WorldError::NotConnected { reason: error.to_string() };
        let launched = Launched::this()?;
        let processes = Processes::of_job(num_ranks, waits.longest).map_err(|error| not_connected(&error))?;
        let (rank, world_size) = (processes.rank(), processes.size());
        check_job(launched.as_ref(), [rank, processes.job_size()])?;
        let program = program::name_of_this();
        let Waits { longest: timeout, to_start: start_timeout } = waits;
        let member = Member { program, world_size, ranks: rank..rank + 1, timeout, start_timeout };
        let listener = (rank == 0)
            .then(|| SideChannel::listen(own_address(launched.as_ref(), port, processes.job_size() == 1)?));
        let listener = listener.map(|listening| listening.and_then(|it| Ok((it.local_addr()?, it))));
        let told = match &listener {
            None => String::new(),
            Some(Ok((address, _))) => address.to_string(),
            Some(Err(error)) => error.to_string(),
        };
        let mut bytes = told.into_bytes();
        bytes.resize(ADDRESS_BYTES, 0);
        let heard = processes.meet(bytes, start_timeout).map_err(|error| not_connected(&error))?;
        let heard = String::from_utf8_lossy(&heard);
        let heard = heard.trim_end_matches('\0');
        if rank >= world_size {
            return Ok(None);
        }
        let channel = match listener {
            Some(listening) => {
                let (_, listener) = listening.map_err(|error| not_connected(&error))?;
                SideChannel::host(listener, now_ns, member)
            }
            None => {
                // Instead of an address it gives what keeps it from listening.
                let address: SocketAddr = heard.parse().map_err(|_| WorldError::SaidByFirst)?;
                SideChannel::join(address, member)
            }
        };
        let channel = Arc::new(channel.map_err(|error| not_connected(&error))?);
        let [stopped, left, first, failed] = [&channel, &channel, &channel, &channel].map(Arc::clone);
        processes.watch(
            move || stopped.is_stopped(),
            move |rank| left.has_ended(rank),
            move || first.first_ended(),
            move |rank, report| failed.take_report(rank, report),
        );
        Ok(Some(Self { processes, channel }))
    }

    fn rank(&self) -> usize {
        self.processes.rank()
    }
}

/// Refuses a launcher that started other processes than MPI connects, as torchrun's, each of which is alone, and variables that are left from
/// another job.
fn check_job(launched: Option<&Launched>, [own, connected]: [usize; 2]) -> Result<(), WorldError> {
    match launched {
        Some(Launched { launcher, size, .. }) if *size != connected => {
            Err(WorldError::OtherSize { launcher: launcher.to_string(), launched: *size, connected })
        }
        Some(Launched { launcher, rank, .. }) if *rank != own => {
            Err(WorldError::OtherRank { launcher: launcher.to_string(), launched: *rank, connected: own })
        }
        _ => Ok(()),
    }
}

/// Where the process of rank 0 listens: on the address that the launcher names, else on this host's loopback if all processes are on it, else on
/// the address of its name.
fn own_address(
    launched: Option<&Launched>,
    port: Option<u16>,
    is_alone: bool,
) -> Result<SocketAddr, SideChannelError> {
    let is_near = is_alone || launched.is_some_and(Launched::is_on_one_host);
    let master = launched.and_then(|launched| launched.master.clone());
    let port = port.or(master.as_ref().and_then(|master| master.port)).unwrap_or(0);
    let host = match master {
        Some(Master { host, .. }) => host,
        None if is_near => Ipv4Addr::LOCALHOST.to_string(),
        None => crate::host::name(),
    };
    // A host's own name often leads to its loopback address, at which no other host reaches it.
    let is_reached = |address: &SocketAddr| is_near || !address.ip().is_loopback();
    let reason = match (host.as_str(), port).to_socket_addrs().map(|mut found| found.find(is_reached)) {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => "it leads to no address at which other hosts reach it".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(SideChannelError::UnknownHost { host, reason })
}

fn now_ns() -> u64 {
    Host.time_ns(Host.mark())
}

impl World for MpiWorld {
    fn size(&self) -> usize {
        self.processes.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        self.rank()..self.rank() + 1
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        assert!(rank == self.rank(), "a process asks only for its own rank");
        let channel = Arc::clone(&self.channel);
        self.processes.communicator(&Host, Arc::new(move || channel.is_stopped()))
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

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.channel.clock_offset(now_ns)
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
        // The connections of the side channel go over the process of rank 0, which may be the one that is gone.
        self.processes.report(report.clone());
        self.channel.exchange_failures(report, time)
    }
}
