//! Each rank is a process of a job that the system's MPI has started.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::{JobSecret, LaunchedProcess};
use pipezero_models::{Host, Queue};

use super::World;
use super::address::{address_of_first, broadcast_from, own_address};
use super::control_channel::{ControlChannel, Member};
use super::device::{NamedDevice, RanksOnDevice};
use super::error::WorldError;
use super::process_world::{ProcessWorld, Transport};
use super::program;
use super::secret::over_mpi;
use crate::{CommError, Communicator, IsStopped, Processes};

/// Bytes of an address as text, or of why there is none.
const ADDRESS_BYTES: usize = 512;

/// How processes learn where the first of their ranks listens.
#[derive(Clone, Copy)]
enum Meeting<'a> {
    /// MPI tells them; on this port, or one that the launcher names, or else any that is free.
    OnPort(Option<u16>),
    /// A world tells them that connects all processes of the job.
    Told(&'a dyn World),
}

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
        Self::connected(0..num_ranks, timeout, Meeting::OnPort(port), |member| member)
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
        Self::connected(0..num_ranks, timeout, Meeting::OnPort(port), Member::again)
    }

    /// As [`ProcessWorld::of_first_of_mpi`], of these ranks of a job all of whose processes a world connects already.
    ///
    /// # Errors
    /// As [`ProcessWorld::of_mpi`].
    pub(crate) fn of_ranks_of_mpi(
        ranks: Range<usize>,
        timeout: Duration,
        around: &dyn World,
    ) -> Result<Option<Self>, WorldError> {
        Self::connected(ranks, timeout, Meeting::Told(around), Member::again)
    }

    /// `changed` says how this process takes part, where it is not as at the start of a job.
    fn connected(
        ranks: Range<usize>,
        timeout: Duration,
        meeting: Meeting<'_>,
        changed: impl Fn(Member) -> Member,
    ) -> Result<Option<Self>, WorldError> {
        let launched = LaunchedProcess::this()?;
        let first = ranks.start;
        let processes = Processes::of_job(ranks, timeout).map_err(WorldError::not_connected)?;
        let job_rank = processes.job_rank();
        check_job(launched.as_ref(), [job_rank, processes.job_size()])?;
        let is_near =
            processes.job_size() == 1 || launched.as_ref().is_some_and(LaunchedProcess::is_on_one_host);
        let listener = (job_rank == first).then(|| {
            ControlChannel::listen(match meeting {
                Meeting::OnPort(port) => address_of_first(launched.as_ref(), port, is_near)?,
                Meeting::Told(around) => own_address(around)?,
            })
        });
        let listener = listener.map(|listening| listening.and_then(|it| Ok((it.local_addr()?, it))));
        let told = match &listener {
            None => String::new(),
            Some(Ok((address, _))) => address.to_string(),
            Some(Err(error)) => error.to_string(),
        };
        let member =
            |secret, place| changed(Member::of_process((program::name_of_this(), secret), place, timeout));
        let start_timeout = member(None, [0, 1]).start_timeout;
        let own_secret = JobSecret::of_environment();
        // The secret first, then an address if MPI carries one.
        let mut bytes =
            if job_rank == 0 { over_mpi::told(own_secret.as_ref())? } else { vec![0; over_mpi::NUM_BYTES] };
        if let Meeting::OnPort(_) = meeting {
            bytes.extend(told.as_bytes());
            bytes.resize(over_mpi::NUM_BYTES + ADDRESS_BYTES, 0);
        }
        let heard = processes.meet(bytes, start_timeout).map_err(WorldError::not_connected)?;
        let (secret, address) = heard.split_at(over_mpi::NUM_BYTES);
        let heard = match meeting {
            Meeting::OnPort(_) => String::from_utf8_lossy(address).trim_end_matches('\0').to_owned(),
            Meeting::Told(around) => broadcast_from(around, first, told)?,
        };
        let secret = over_mpi::heard(own_secret, secret)?;
        let Some(rank) = processes.own_rank() else { return Ok(None) };
        let place = [rank, processes.size()];
        let member = member(Some(secret), place);
        let channel = match listener {
            Some(listening) => {
                let (_, listener) = listening.map_err(WorldError::not_connected)?;
                ControlChannel::host(listener, now_ns, member)
            }
            None => {
                // Instead of an address it gives what keeps it from listening.
                let address: SocketAddr = heard.parse().map_err(|_| WorldError::SaidByFirst)?;
                ControlChannel::join(address, member)
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
fn check_job(launched: Option<&LaunchedProcess>, [own, connected]: [usize; 2]) -> Result<(), WorldError> {
    match launched {
        Some(LaunchedProcess { launcher, size, .. }) if *size != connected => {
            Err(WorldError::OtherSize { launcher: launcher.to_string(), launched: *size, connected })
        }
        Some(LaunchedProcess { launcher, rank, .. }) if *rank != own => {
            Err(WorldError::OtherRank { launcher: launcher.to_string(), launched: *rank, connected: own })
        }
        _ => Ok(()),
    }
}

fn now_ns() -> u64 {
    Host.time_ns(Host.mark())
}

impl Transport for Processes {
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
