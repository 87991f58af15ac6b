//! Each rank is a process of a job that the system's MPI has started.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::{Host, Queue};

use super::error::WorldError;
use super::side_channel::{Member, SideChannel, SideChannelError};
use super::{ClockOffset, Positions, World};
use crate::host::Launched;
use crate::run::comm::{CommError, Communicator, Processes};

/// Bytes of an address as text, or of why there is none.
const ADDRESS_BYTES: usize = 512;
/// How long processes may take to find each other at least: they start on many hosts.
const START_TIME: Duration = Duration::from_secs(60);
/// With which a text begins that says why there is no address.
const NONE: char = '!';

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
    /// # Errors
    /// When MPI cannot be started, or the processes cannot be connected.
    pub fn of_job(timeout: Duration) -> Result<Self, WorldError> {
        Ok(Self::of_first(usize::MAX, timeout)?.expect("each process is one of all"))
    }

    /// As [`MpiWorld::of_job`], of the first so many ranks alone; `None` in the processes of the others, which call it too.
    ///
    /// # Errors
    /// As [`MpiWorld::of_job`].
    pub fn of_first(num_ranks: usize, timeout: Duration) -> Result<Option<Self>, WorldError> {
        let not_connected = |error: &dyn ToString| WorldError::NotConnected { reason: error.to_string() };
        let processes = Processes::of_job(num_ranks, timeout).map_err(|error| not_connected(&error))?;
        let (rank, world_size) = (processes.rank(), processes.size());
        let program = format!("pipezero {}", env!("CARGO_PKG_VERSION"));
        let start_timeout = timeout.max(START_TIME);
        let member = Member { program, world_size, ranks: rank..rank + 1, timeout, start_timeout };
        let listener = (rank == 0).then(|| SideChannel::listen((own_address()?, 0).into()));
        let listener = listener.map(|listening| listening.and_then(|it| Ok((it.local_addr()?, it))));
        let told = match &listener {
            None => String::new(),
            Some(Ok((address, _))) => address.to_string(),
            Some(Err(error)) => format!("{NONE}{error}"),
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
                let address: Result<SocketAddr, _> = heard.parse();
                let address = address.map_err(|_| not_connected(&heard.trim_start_matches(NONE)))?;
                SideChannel::join(address, member)
            }
        };
        let channel = Arc::new(channel.map_err(|error| not_connected(&error))?);
        let [stopped, left] = [&channel, &channel].map(Arc::clone);
        processes.watch(move || stopped.is_stopped(), move |rank| left.has_ended(rank));
        Ok(Some(Self { processes, channel }))
    }

    fn rank(&self) -> usize {
        self.processes.rank()
    }
}

/// Where the process of rank 0 listens: what the launcher names, else this host's loopback if all processes are on it, else the address of
/// its name.
fn own_address() -> Result<IpAddr, SideChannelError> {
    let name = match std::env::var("MASTER_ADDR") {
        Ok(name) => name,
        Err(_) if Launched::this().is_some_and(|launched| launched.local_size == Some(launched.size)) => {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        Err(_) => crate::host::name(),
    };
    let mut found = (name.as_str(), 0).to_socket_addrs()?;
    let missing = || std::io::Error::other(format!("{name} has no address; name one in MASTER_ADDR"));
    Ok(found.next().ok_or_else(missing)?.ip())
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

    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        let mut reports = self.channel.exchange_failures(report.clone(), time);
        // The connections between the others go over the process of rank 0.
        if self.rank() > 0 && reports.first().is_some_and(|(_, report)| report.is_none()) {
            let others = (1..self.size()).filter(|&rank| rank != self.rank()).collect();
            for (rank, heard) in self.processes.report(report, others, time) {
                let of_rank = reports.iter_mut().find(|(ranks, _)| ranks.start == rank);
                of_rank.expect("each rank has a process").1.get_or_insert(heard);
            }
        }
        reports
    }
}
