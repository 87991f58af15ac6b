//! Each rank is a process of a job that the system's MPI has started.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::{Host, Queue};

use super::address::address_of_first;
use super::device::{NamedDevice, RanksOnDevice};
use super::error::WorldError;
use super::process_world::{Carrier, ProcessWorld};
use super::program;
use super::side_channel::{Member, SideChannel};
use crate::host::Launched;
use crate::run::comm::{CommError, Communicator, IsStopped, Processes};

/// Bytes of an address as text, or of why there is none.
const ADDRESS_BYTES: usize = 512;

impl ProcessWorld {
    /// The world of the job of MPI that this process belongs to. All its processes call it as often, and wait for each other.
    ///
    /// The process of rank 0 listens for the others on `port`; if none is given, on the one that the launcher names, or else on any that is free.
    ///
    /// # Errors
    /// When MPI cannot be started, or the processes cannot be connected.
    pub fn of_mpi(timeout: Duration, port: Option<u16>) -> Result<Self, WorldError> {
        Ok(Self::of_first_of_mpi(usize::MAX, timeout, port)?.expect("each process is one of all"))
    }

    /// As [`ProcessWorld::of_mpi`], of the first so many ranks alone; `None` in the processes of the others, which call it too.
    ///
    /// # Errors
    /// As [`ProcessWorld::of_mpi`].
    pub fn of_first_of_mpi(
        num_ranks: usize,
        timeout: Duration,
        port: Option<u16>,
    ) -> Result<Option<Self>, WorldError> {
        Self::connected(num_ranks, timeout, port, |member| member)
    }

    /// As [`ProcessWorld::of_first_of_mpi`], of processes that have found each other before: none waits longer than `timeout` for the others to come.
    ///
    /// # Errors
    /// As [`ProcessWorld::of_mpi`].
    pub(crate) fn of_first_of_mpi_again(
        num_ranks: usize,
        timeout: Duration,
        port: Option<u16>,
    ) -> Result<Option<Self>, WorldError> {
        Self::connected(num_ranks, timeout, port, Member::again)
    }

    /// `changed` says how this process takes part, where it is not as at the start of a job.
    fn connected(
        num_ranks: usize,
        timeout: Duration,
        port: Option<u16>,
        changed: impl FnOnce(Member) -> Member,
    ) -> Result<Option<Self>, WorldError> {
        let launched = Launched::this()?;
        let processes = Processes::of_job(num_ranks, timeout).map_err(WorldError::not_connected)?;
        let place @ [rank, world_size] = [processes.rank(), processes.size()];
        check_job(launched.as_ref(), [rank, processes.job_size()])?;
        let member = changed(Member::of_process(program::name_of_this(), place, timeout));
        let start_timeout = member.start_timeout;
        let is_near = processes.job_size() == 1 || launched.as_ref().is_some_and(Launched::is_on_one_host);
        let listener =
            (rank == 0).then(|| SideChannel::listen(address_of_first(launched.as_ref(), port, is_near)?));
        let listener = listener.map(|listening| listening.and_then(|it| Ok((it.local_addr()?, it))));
        let told = match &listener {
            None => String::new(),
            Some(Ok((address, _))) => address.to_string(),
            Some(Err(error)) => error.to_string(),
        };
        let mut bytes = told.into_bytes();
        bytes.resize(ADDRESS_BYTES, 0);
        let heard = processes.meet(bytes, start_timeout).map_err(WorldError::not_connected)?;
        let heard = String::from_utf8_lossy(&heard);
        let heard = heard.trim_end_matches('\0');
        if rank >= world_size {
            return Ok(None);
        }
        let channel = match listener {
            Some(listening) => {
                let (_, listener) = listening.map_err(WorldError::not_connected)?;
                SideChannel::host(listener, now_ns, member)
            }
            None => {
                // Instead of an address it gives what keeps it from listening.
                let address: SocketAddr = heard.parse().map_err(|_| WorldError::SaidByFirst)?;
                SideChannel::join(address, member)
            }
        };
        let channel = Arc::new(channel.map_err(WorldError::not_connected)?);
        let [stopped, left, first, failed] = [&channel, &channel, &channel, &channel].map(Arc::clone);
        processes.watch(
            move || stopped.is_stopped(),
            move |rank| left.has_ended(rank),
            move || first.first_ended(),
            move |rank, report| failed.take_report(rank, report),
        );
        Self::new(processes, channel, place).map(Some)
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

fn now_ns() -> u64 {
    Host.time_ns(Host.mark())
}

impl Carrier for Processes {
    fn communicator(&self, _: usize, is_stopped: IsStopped) -> Result<Box<dyn Communicator>, CommError> {
        self.communicator(&Host, is_stopped)
    }

    fn device(&self, rank: usize) -> RanksOnDevice {
        RanksOnDevice { on: NamedDevice::cpu(), number: 0, ranks: vec![rank] }
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn report(&self, report: &[u8]) {
        self.report(report.to_vec());
    }
}
