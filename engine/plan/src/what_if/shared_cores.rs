//! Cores of a CPU that its ranks share, from moment to moment: one that waits leaves its core to the others.

use pipezero_schedule::simulate::cluster::{Computes, Cores};

use crate::Plan;
use crate::costs::{DeviceSpec, Source};

/// The cores of each host, where its ranks have more threads than it has cores; `None` where each thread has a core, where nobody knows of
/// cores, and where the step is too long to be played rank by rank: then each rank has an equal share of the cores all the time.
pub(super) fn shared_cores(plan: &Plan, source: Source<'_>) -> Option<Cores> {
    let Source::Analytic(device) = source else { return None };
    let run = plan.run();
    let (num_cores, threads) = (device.cores?, run.threads.max(1));
    let ranks_per_host = run.comm.ranks_per_node.unwrap_or(device.network.ranks_per_node);
    let ranks_per_host = ranks_per_host.min(plan.grid().world_size());
    let rows = plan.training().ranks().map(|rank| plan.training().row(rank).len() as u128);
    let num_instructions = rows.sum::<u128>() * plan.grid().data_degree as u128;
    // A rank that computes has all its threads at work.
    let can_be_played =
        num_cores.is_multiple_of(threads) && num_instructions <= Plan::COMPARED_INSTRUCTIONS_MAX as u128;
    let is_short = run.model.facts().given_times.is_none() && threads * ranks_per_host > num_cores;
    (is_short && can_be_played).then(|| Cores {
        ranks_per_host: u32::try_from(ranks_per_host).unwrap_or(u32::MAX),
        num_cores: u32::try_from(num_cores / threads).unwrap_or(u32::MAX),
        computes: computes(plan, source),
    })
}

/// The device as it is while no other rank wants its cores: the simulator shares them out.
pub(super) fn unshared(device: &DeviceSpec) -> DeviceSpec {
    DeviceSpec { cores: Some(usize::MAX), ..device.clone() }
}

/// What computes need of a host: those of a GPU need none of its cores, nor do layers of given times, which stand in for a GPU.
pub(super) fn computes(plan: &Plan, source: Source<'_>) -> Computes {
    let is_gpu = matches!(source, Source::Analytic(device) if device.cores.is_none());
    let is_timed = plan.run().model.facts().given_times.is_some();
    if is_gpu || is_timed { Computes::Elsewhere } else { Computes::OccupyCores }
}
