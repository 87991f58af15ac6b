//! `"resident_units": "auto"`: as many gathered units as fit the memory of every rank.

use pipezero_models::Model;
use pipezero_schedule::PipelineRank;

use super::{Plan, PlanError};
use crate::config::{ResidencyConfig, Run};
use crate::shard::Purpose;

/// The run with `auto` replaced by the largest number that fits `memory` on every rank, so that all follow one policy.
///
/// A program may fill fewer or smaller buffers than its number allows, so only a plan tells what a number needs. Numbers
/// are tried from the one that the sizes of the units suggest, which is nearly always right or next to it.
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
    let planned = |resident_units| Plan::planned(with(resident_units), model.clone());
    let plan = planned(ResidencyConfig::Units(least))?;
    if plan.needs().rank_bytes > limit_bytes {
        return Err(plan.rank_does_not_fit(limit_bytes));
    }
    // A balanced split is an error where no split fits, and so says the same.
    let fits = |resident_units| {
        planned(resident_units).is_ok_and(|plan: Plan| plan.needs().rank_bytes <= limit_bytes)
    };
    if fits(ResidencyConfig::All) {
        return Ok(with(ResidencyConfig::All));
    }
    let mut fitting = least;
    let mut too_many = plan.most_units_of_a_rank();
    let mut next = suggested(&plan, limit_bytes);
    while fitting + 1 < too_many {
        let tried = next.clamp(fitting + 1, too_many - 1);
        if fits(ResidencyConfig::Units(tried)) {
            (fitting, next) = (tried, tried + 1);
        } else {
            (too_many, next) = (tried, tried - 1);
        }
    }
    Ok(with(ResidencyConfig::Units(fitting)))
}

/// How many of its largest units every rank has room for beside all that is not gathered.
fn suggested(plan: &Plan, limit_bytes: u64) -> usize {
    let room_of = |rank| {
        let num_gathered: usize = plan.gather_buffers(rank, Purpose::Training).iter().sum();
        let gathered_bytes = (plan.element_type().num_bytes() * num_gathered) as u64;
        let mut left = limit_bytes.saturating_sub(plan.peak_of(rank) - gathered_bytes);
        let units = plan.gathered_unit_bytes(rank);
        let fitting = units.iter().take_while(|&&bytes| {
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let num_fitting = fitting.count();
        // A rank that has room for all its units bounds nothing.
        (num_fitting < units.len()).then_some(num_fitting)
    };
    let ranks = (0..plan.grid.pipeline_degree).map(|rank| PipelineRank(rank as u32));
    ranks.filter_map(room_of).min().unwrap_or_else(|| plan.most_units_of_a_rank())
}
