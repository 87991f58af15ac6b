//! The costs of a plan, and where they come from.

use std::num::NonZeroU32;

use pipezero_schedule::simulate::{Costs, Links};

use super::analytic::Analytic;
use super::assumption::Assumption;
use super::core_times::CoreTimes;
use super::device_spec::{DeviceSpec, Network};
use super::error::PredictError;
use super::file::{CostsFile, Host};
use super::measured::Measured;
use super::prices::{self, EdgeCosts, Prices};
use super::slowness::RankSlowness;
use crate::Plan;

/// Where costs come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// They were measured.
    Measured(&'a CostsFile),
    /// They are calculated from a device's rates.
    Analytic(&'a DeviceSpec),
}

/// What a step of a plan is predicted from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// What every instruction of the plan's training program costs, nanoseconds.
    pub costs: Costs,
    /// World ranks `n k` to `n k + n - 1` share a node: the run says so, else the device; `None` where all share one.
    pub ranks_per_node: Option<NonZeroU32>,
    /// Edges of which some data ranks' messages stay in a node and others' do not: what both cost. In `costs` all cost
    /// what the slowest does.
    pub edges_by_reach: Option<EdgeCosts>,
    /// What a step takes beside its program.
    pub step_overhead_ns: u64,
    /// By how much ranks are off their mean times, step by step.
    pub slowness: RankSlowness,
    /// Where the costs come from, in a line.
    pub description: String,
    /// What the source does not hold, and what stands for it.
    pub assumptions: Vec<Assumption>,
}

/// What every instruction of a plan's training program costs.
///
/// # Errors
/// [`PredictError`] where a costs file is of another model, or has nothing to compose a unit or a message of.
pub fn for_plan(plan: &Plan, source: Source<'_>) -> Result<Predicted, PredictError> {
    match source {
        Source::Measured(file) => {
            let mut prices = Measured::new(plan, file)?;
            let predicted = Predicted::by(&mut prices, plan, None)?;
            let mut assumptions = prices.assumptions;
            assumptions.extend(file.rank_slowness_ppm.assumption(plan));
            let Host { name, cores, ranks, gpus } = &file.host;
            let gpus = gpus.as_ref().map(|gpus| format!("{gpus}, ")).unwrap_or_default();
            let nodes = nodes(predicted.ranks_per_node);
            Ok(Predicted {
                step_overhead_ns: file.step_overhead_ns,
                slowness: file.rank_slowness_ppm.clone(),
                description: format!(
                    "measured on {name} ({gpus}{cores} cores, {ranks} ranks at work){nodes}"
                ),
                assumptions,
                ..predicted
            })
        }
        Source::Analytic(device) => {
            let ranks_per_node = plan.run().comm.ranks_per_node.unwrap_or(device.network.ranks_per_node);
            let network = Network { ranks_per_node, ..device.network };
            let device = &DeviceSpec { network, ..device.clone() };
            let rates = rates_of_rank(plan, device);
            let predicted = Predicted::by(&mut Analytic { plan, device, rates }, plan, Some(device))?;
            let nodes = nodes(predicted.ranks_per_node);
            Ok(Predicted { description: describe(plan, device, rates) + &nodes, ..predicted })
        }
    }
}

impl Predicted {
    /// By prices alone; nothing is known of what lies beside the program.
    fn by<P: Prices>(prices: &mut P, plan: &Plan, device: Option<&DeviceSpec>) -> Result<Self, PredictError> {
        let network = device.map(|device| device.network);
        let of_device = match network {
            Some(Network { shared: true, .. }) => Links::SharedByCollectives,
            _ => Links::Own,
        };
        let comm = &plan.run().comm;
        let said = comm.links.map(|links| links.ranks_per_node).or(comm.ranks_per_node);
        // None if a node has all ranks, or more than can be counted.
        let ranks_per_node = said.or(network.map(|network| network.ranks_per_node));
        let ranks_per_node = ranks_per_node.and_then(|ranks| NonZeroU32::new(u32::try_from(ranks).ok()?));
        let links = plan.links().unwrap_or(of_device);
        let (costs, edges_by_reach) = prices::costs(plan, prices, links, ranks_per_node)?;
        Ok(Self {
            costs,
            ranks_per_node,
            edges_by_reach,
            step_overhead_ns: 0,
            slowness: RankSlowness::default(),
            description: String::new(),
            assumptions: Vec::new(),
        })
    }
}

/// How many of the device's rates a rank has: a GPU is its own, the cores of a host are shared where threads outnumber them. Layers
/// of given times use no core.
fn rates_of_rank(plan: &Plan, device: &DeviceSpec) -> f64 {
    let Some(cores) = device.cores else { return 1.0 };
    let num_busy = match plan.run().model.facts().given_times {
        Some(_) => 1,
        None => plan.grid().world_size().min(device.network.ranks_per_node),
    };
    (plan.run().threads as f64).min(cores as f64 / num_busy as f64)
}

/// The peak of a rank for matrix products in the run's type, operations a second; `None` on a CPU, whose clock is not known.
pub(crate) fn peak_of_rank(plan: &Plan, device: &DeviceSpec) -> Option<f64> {
    device.is_gpu().then(|| device.peak_flops_per_s(plan.run().precision))
}

/// How many ranks a node has, unless one has all whatever their number.
fn nodes(ranks_per_node: Option<NonZeroU32>) -> String {
    let nodes =
        |ranks| format!(", nodes of {ranks} {}", if ranks == NonZeroU32::MIN { "rank" } else { "ranks" });
    ranks_per_node.map_or_else(String::new, nodes)
}

/// The rates that were used, so that they are not mistaken for measured ones.
fn describe(plan: &Plan, device: &DeviceSpec, rates: f64) -> String {
    if let Some(core) = &device.measured {
        return measured_on_this_host(plan, device, core);
    }
    let tflops = device.flops_per_s(plan.run().precision) * rates / 1e12;
    let memory = device.memory_bytes_per_s * rates / 1e9;
    let links = match plan.run().comm.links {
        Some(_) => "the run's links".to_owned(),
        None => {
            let (near, far) = (device.network.near.bytes_per_s / 1e9, device.network.far.bytes_per_s / 1e9);
            format!("links of {near:.3} GB/s near and {far:.3} GB/s far")
        }
    };
    format!(
        "analytic model of {}, not measured: {tflops:.3} TFLOP/s in {} and {memory:.1} GB/s of memory achieved, {links}",
        device.name,
        plan.run().precision.name()
    )
}

/// What was measured on a core.
fn measured_on_this_host(plan: &Plan, device: &DeviceSpec, core: &CoreTimes) -> String {
    let (name, precision) = (&device.name, plan.run().precision.name());
    let what = if core.layers.is_empty() { "a product" } else { "the layers of the run" };
    let (gflops, memory) = (core.flops_per_s / 1e9, core.copied_bytes_per_s / 1e9);
    let cores =
        if core.num_at_work == 1 { "1 core".to_owned() } else { format!("{} cores", core.num_at_work) };
    format!(
        "calculated for {name}: {cores} of this machine measured at work, {gflops:.1} GFLOP/s a core in {precision} in {what} and {memory:.1} GB/s of memory"
    )
}
