//! Ranks that are processes, on any number of hosts.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::{JobSecret, LaunchedProcess};
use pipezero_models::queue::Cuda;

use super::super::address::{address_of_first, broadcast_from, own_address};
use super::super::control_channel::{ControlChannel, Member};
use super::super::device::{NamedDevice, RanksOnDevice, number_on_host};
use super::super::error::WorldError;
use super::super::process_world::{ProcessWorld, Transport, or_stop};
use super::super::spec::WorldSpec;
use super::super::{World, program, secret};
use super::agreement::agree;
use super::gpu::{GpuFacts, own_gpu};
use super::spare_channels::spare_channels;
use crate::{CommError, Communicator, IsStopped, Nccl};

/// What carries the elements of this process's rank.
#[derive(Debug)]
struct OverNccl {
    nccl: Nccl,
    gpu: Cuda,
    name: String,
    /// Its number among those that the process sees.
    ordinal: usize,
    /// Warnings about GPUs that differ, and about a job without a secret.
    warnings: Vec<String>,
    channel: Arc<ControlChannel>,
    /// By which reports come too.
    spare: Vec<ControlChannel>,
}

/// The world of these ranks of the job, which are all of them unless something connects all processes already.
///
/// # Errors
/// When this process has no GPU of its own or no NCCL, or the processes do not find each other.
pub(super) fn world(
    (spec, ranks): (&WorldSpec, Range<usize>),
    launched: &LaunchedProcess,
    timeout: Duration,
    around: Option<&dyn World>,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    let is_first = launched.rank == ranks.start;
    let listen = |address| ControlChannel::listen(address).map_err(WorldError::not_connected);
    let (address, listener) = match around {
        None => {
            let address = known_address(launched, spec.comm.port)?;
            (address, is_first.then(|| listen(address)).transpose()?)
        }
        // The port of the job may still be in use, by what connects its processes.
        Some(around) => {
            let listening = is_first.then(|| listen(own_address(around).map_err(WorldError::not_connected)?));
            let told = match &listening {
                None => String::new(),
                Some(Ok(listener)) => {
                    listener.local_addr().map_or_else(|error| error.to_string(), |it| it.to_string())
                }
                Some(Err(error)) => error.to_string(),
            };
            let told = broadcast_from(around, ranks.start, told)?;
            let listener = listening.transpose()?;
            // Instead of an address it gives what keeps it from listening.
            (told.parse().map_err(|_| WorldError::SaidByFirst)?, listener)
        }
    };
    if !ranks.contains(&launched.rank) {
        return Ok(None);
    }
    let place = [launched.rank - ranks.start, ranks.len()];
    let own = own_gpu(launched, spec.f32_products);
    let who = (program::name_of_this(), JobSecret::of_environment());
    let member = Member::of_process(who, place, timeout);
    let member = if around.is_some() { member.again() } else { member };
    let channel = match listener {
        Some(listener) => ControlChannel::host(listener, Cuda::now_ns, member.clone()),
        None => ControlChannel::join(address, member.clone()),
    };
    let channel = Arc::new(channel.map_err(WorldError::not_connected)?);
    // Where something connects all processes already, that has said it.
    let warning = (around.is_none() && member.secret.is_none()).then(secret::missing);
    let mut transport = or_stop(&channel, transport(spec, own, &channel, member))?;
    transport.warnings.extend(warning);
    Ok(Some(Arc::new(ProcessWorld::new(transport, channel, place)?)))
}

/// Connects the GPUs of processes that a channel connects. The others hear why this one cannot take part.
fn transport(
    spec: &WorldSpec,
    own: Result<(Cuda, GpuFacts), WorldError>,
    channel: &Arc<ControlChannel>,
    member: Member,
) -> Result<OverNccl, WorldError> {
    let (gpu, facts) = match own {
        Ok((gpu, facts)) => (Some((gpu, facts.name.clone(), facts.ordinal)), Ok(facts)),
        Err(error) => (None, Err(error)),
    };
    let agreement = agree(channel, facts).map_err(WorldError::not_connected)??;
    let (gpu, name, ordinal) = gpu.expect("a process without a GPU has given its reason, to which all agree");
    let timeout = member.timeout;
    let spare = spare_channels(channel, member).map_err(WorldError::not_connected)?;
    let order = spec.comm.reduction;
    let nccl = Nccl::new(agreement.id(), spec.lanes.clone(), order, timeout, agreement.num_multiprocessors)?;
    Ok(OverNccl {
        nccl,
        gpu,
        name,
        ordinal,
        warnings: agreement.warnings,
        channel: Arc::clone(channel),
        spare,
    })
}

/// Where the process of rank 0 listens, which all know before they start.
fn known_address(launched: &LaunchedProcess, port: Option<u16>) -> Result<SocketAddr, WorldError> {
    let is_near = launched.is_on_one_host();
    let unknown = || WorldError::NoMeetingPlace { launcher: launched.launcher.to_string() };
    if launched.master.is_none() && !is_near {
        return Err(unknown());
    }
    match address_of_first(Some(launched), port, is_near).map_err(WorldError::not_connected)? {
        address if address.port() == 0 => Err(unknown()),
        address => Ok(address),
    }
}

impl Transport for OverNccl {
    fn communicator(&self, rank: usize, is_stopped: IsStopped) -> Result<Box<dyn Communicator>, CommError> {
        // NCCL does not always notice that a process has ended, and then its operations with it never end.
        let channel = Arc::clone(&self.channel);
        let has_to_stop = move || is_stopped() || channel.has_lost_a_process();
        self.nccl.communicator(rank, &self.gpu, Arc::new(has_to_stop))
    }

    fn device(&self, rank: usize) -> RanksOnDevice {
        let on = NamedDevice { device: Arc::new(self.gpu.clone()), name: self.name.clone() };
        RanksOnDevice { on, number: number_on_host(self.ordinal), ranks: vec![rank] }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn now_ns(&self) -> u64 {
        Cuda::now_ns()
    }

    fn report(&self, report: &[u8]) {
        for spare in &self.spare {
            if let Err(error) = spare.report(report.to_vec()) {
                tracing::debug!(%error, "the report goes to the other processes in other ways");
            }
        }
    }
}
