//! `"resident_units": "auto"`: as many gathered units as fit the memory of every rank.

use pipezero_models::Model;

use super::{Plan, PlanError};
use crate::config::{PartitionConfig, ResidencyConfig, Run};
use pipezero_partition::Purpose;

impl Plan {
    /// The plan of a run whose residency is `auto`: the largest number that fits `memory` on every rank, so that all follow
    /// one policy.
    ///
    /// The split comes first. It is the one that the run has with the fewest units resident, so a balanced one is as fast
    /// as `memory` allows any to be; what that leaves is for residency. Rejected: a split for each number, which gives up a
    /// faster slowest stage in every micro-batch to save gathers that prefetching may hide.
    ///
    /// A program may fill fewer or smaller buffers than its number allows, so only a plan shows what a number needs. Numbers
    /// are tried from the one that the sizes of the units suggest, which is nearly always right or next to it.
    ///
    /// # Errors
    /// [`PlanError::NoMemoryGiven`] without `memory`; [`PlanError::StageMemory`] and [`PlanError::RankMemory`] where not
    /// even the units in use and prefetched fit.
    pub(super) fn with_what_fits(mut run: Run, model: Model) -> Result<Self, PlanError> {
        let limit_bytes = run.memory_bytes.ok_or(PlanError::NoMemoryGiven)?;
        let least = 1 + run.zero.prefetch_units;
        run.zero.resident_units = ResidencyConfig::Units(least);
        let plan = Self { is_residency_auto: true, ..Self::planned_around(run, model)? };
        let mut plan = plan.fitting()?;
        let all = plan.with_residency(ResidencyConfig::All)?;
        if all.needs().rank_bytes <= limit_bytes {
            return Ok(all);
        }
        let mut next = suggested(&plan, limit_bytes);
        let mut too_many = plan.most_units_of_a_rank();
        let mut fitting = least;
        while fitting + 1 < too_many {
            let tried = next.clamp(fitting + 1, too_many - 1);
            let larger = plan.with_residency(ResidencyConfig::Units(tried))?;
            if larger.needs().rank_bytes <= limit_bytes {
                (plan, fitting, next) = (larger, tried, tried + 1);
            } else {
                (too_many, next) = (tried, tried - 1);
            }
        }
        Ok(plan)
    }

    /// The plan of the same run with another residency, on the split that this plan has: a balanced one would answer to
    /// other memory with other stages.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub(super) fn with_residency(&self, resident_units: ResidencyConfig) -> Result<Self, PlanError> {
        self.on_this_split(|run| run.zero.resident_units = resident_units)
    }

    /// The plan of the same run with something changed but the split.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub(super) fn on_this_split(&self, change: impl FnOnce(&mut Run)) -> Result<Self, PlanError> {
        let mut run = self.run.clone();
        change(&mut run);
        run.parallel.partition = PartitionConfig::Manual(self.blocks_per_stage());
        let mut plan = Self::planned_within(run, self.model.clone(), None)?;
        // How the split was found is still what the run says.
        plan.run.parallel.partition = self.run.parallel.partition.clone();
        plan.is_split_proven = self.is_split_proven;
        plan.is_residency_auto = self.is_residency_auto;
        Ok(plan)
    }
}

/// How many of its largest units every rank has memory for beside all that is not gathered.
fn suggested(plan: &Plan, limit_bytes: u64) -> usize {
    let num_fitting = |rank| {
        let num_gathered: usize = plan.gather_buffers(rank, Purpose::Training).iter().sum();
        let gathered_bytes = (plan.element_type().num_bytes() * num_gathered) as u64;
        let mut left = limit_bytes.saturating_sub(plan.peak_of(rank) - gathered_bytes);
        let units = plan.gathered_unit_bytes(rank);
        let fitting = units.iter().take_while(|&&bytes| {
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let fitting = fitting.count();
        // A rank that has memory for all its units does not limit the number.
        (fitting < units.len()).then_some(fitting)
    };
    plan.training.ranks().filter_map(num_fitting).min().unwrap_or_else(|| plan.most_units_of_a_rank())
}
