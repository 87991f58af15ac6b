//! Ranks that are processes, on any number of hosts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::Cuda;

use super::super::address::address_of_first;
use super::super::device::{NamedDevice, RanksOnDevice, number_on_host};
use super::super::error::WorldError;
use super::super::process_world::{Carrier, ProcessWorld, or_stop};
use super::super::side_channel::{Member, SideChannel, SideChannelError};
use super::super::{World, program};
use super::agreement::agree;
use super::gpu::{GpuFacts, own_gpu};
use super::lanes::lanes;
use super::spare_channels::spare_channels;
use crate::host::Launched;
use crate::plan::Plan;
use crate::run::comm::{CommError, Communicator, IsStopped, Nccl};

/// What carries the elements of this process's rank.
#[derive(Debug)]
struct OverNccl {
    nccl: Nccl,
    gpu: Cuda,
    name: String,
    /// Its number among those that the process sees.
    ordinal: usize,
    /// What is worth knowing of how GPUs differ.
    warnings: Vec<String>,
    channel: Arc<SideChannel>,
    /// By which reports come too.
    spare: Vec<SideChannel>,
}

/// The world of all processes of the job, or of as many as the plan has ranks where something connects all of them already.
///
/// # Errors
/// When this process has no GPU of its own or no NCCL, or the processes do not find each other.
pub(super) fn world(
    plan: &Plan,
    launched: &Launched,
    timeout: Duration,
    around: Option<&dyn World>,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    let size = around.map_or(launched.size, |_| plan.grid().world_size());
    let place @ [rank, _] = [launched.rank, size];
    let address = match around {
        None => known_address(launched, plan.run().comm.port)?,
        // The port of the job may still be in use, by what connects its processes.
        Some(_) => address_of_first(Some(launched), Some(0), launched.is_on_one_host())
            .map_err(WorldError::not_connected)?,
    };
    let listener =
        (rank == 0).then(|| SideChannel::listen(address)).transpose().map_err(WorldError::not_connected)?;
    let address = match around {
        None => address,
        Some(around) => told_by_first(around, listener.as_ref().map(|it| it.local_addr()))?,
    };
    if rank >= size {
        return Ok(None);
    }
    let own = own_gpu(launched, plan.run());
    let member = Member::of_process(program::name_of_this(), place, timeout);
    let member = if around.is_some() { member.again() } else { member };
    let channel = match listener {
        Some(listener) => SideChannel::host(listener, Cuda::now_ns, member.clone()),
        None => SideChannel::join(address, member.clone()),
    };
    let channel = Arc::new(channel.map_err(WorldError::not_connected)?);
    let carrier = or_stop(&channel, carrier(plan, own, &channel, member))?;
    Ok(Some(Arc::new(ProcessWorld::new(carrier, channel, place)?)))
}

/// Connects the GPUs of processes that a channel connects. The others hear why this one cannot take part.
fn carrier(
    plan: &Plan,
    own: Result<(Cuda, GpuFacts), WorldError>,
    channel: &Arc<SideChannel>,
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
    let order = plan.run().comm.reduction;
    let nccl = Nccl::new(agreement.id(), lanes(plan), order, timeout, agreement.num_multiprocessors)?;
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
fn known_address(launched: &Launched, port: Option<u16>) -> Result<SocketAddr, WorldError> {
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

/// Where the process of rank 0 listens, as it says.
fn told_by_first(
    around: &dyn World,
    own: Option<std::io::Result<SocketAddr>>,
) -> Result<SocketAddr, WorldError> {
    let own = own.transpose().map_err(|error| WorldError::not_connected(SideChannelError::from(error)))?;
    let own = own.map_or_else(String::new, |address| address.to_string());
    let told = around.broadcast(own.into_bytes()).map_err(WorldError::not_connected)?;
    Ok(String::from_utf8_lossy(&told).parse().expect("the process of rank 0 tells an address"))
}

impl Carrier for OverNccl {
    fn communicator(&self, rank: usize, is_stopped: IsStopped) -> Result<Box<dyn Communicator>, CommError> {
        // NCCL does not always notice that a process is gone, and nothing that it takes part in ends.
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
