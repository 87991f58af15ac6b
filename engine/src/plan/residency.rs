//! `"resident_units": "auto"`: as many gathered units as fit the memory of every rank.

use pipezero_models::Model;
use pipezero_schedule::PipelineRank;

use super::{Plan, PlanError};
use crate::config::{ResidencyConfig, Run};
use crate::shard::Purpose;

/// The run with `auto` replaced by what fits `memory`: the least over all ranks, so that all follow one policy. Everything
/// but the gather buffers is the same for every number, so one plan tells what is left for them.
///
/// # Errors
/// [`PlanError::NoMemoryGiven`] without `memory`; [`PlanError::RankMemory`] where not even the units in use and
/// prefetched fit.
pub(super) fn resolve(run: Run, model: &Model) -> Result<Run, PlanError> {
    if run.zero.resident_units != ResidencyConfig::Auto {
        return Ok(run);
    }
    let limit_bytes = run.memory_bytes.ok_or(PlanError::NoMemoryGiven)?;
    let least = 1 + run.zero.prefetch_units;
    let with = |resident_units| {
        let mut run = run.clone();
        run.zero.resident_units = resident_units;
        run
    };
    let plan = Plan::planned(with(ResidencyConfig::Units(least)), model.clone())?;
    let mut most = usize::MAX;
    for rank in 0..plan.grid.pipeline_degree {
        let pipeline_rank = PipelineRank(rank as u32);
        let units = plan.gathered_unit_bytes(pipeline_rank);
        let num_gathered: usize = plan.gather_buffers(pipeline_rank, Purpose::Training).iter().sum();
        let gathered_bytes = (plan.element_type().num_bytes() * num_gathered) as u64;
        let peak = plan.peak_of(pipeline_rank);
        if peak > limit_bytes {
            return Err(plan.rank_does_not_fit(limit_bytes));
        }
        let mut left = limit_bytes - (peak - gathered_bytes);
        let fitting = units.iter().take_while(|&&bytes| {
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let num_fitting = fitting.count();
        if num_fitting < units.len() {
            most = most.min(num_fitting.max(least));
        }
    }
    // Buffers of nearly equal units are made equal, so they may need a little more than their units.
    let fits = |&residency: &ResidencyConfig| {
        let plan = Plan::planned(with(residency), model.clone());
        plan.is_ok_and(|plan| plan.needs().rank_bytes <= limit_bytes)
    };
    let all = (most == usize::MAX).then_some(ResidencyConfig::All);
    let numbers = (least + 1..=most.min(plan.most_units_of_a_rank())).rev().map(ResidencyConfig::Units);
    let largest = all.into_iter().chain(numbers).find(fits);
    Ok(with(largest.unwrap_or(ResidencyConfig::Units(least))))
}
