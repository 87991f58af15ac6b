//! Residencies that the plan resolves: `"level"` and `"auto"`, which keep as many gathered units on each rank as some bound
//! lets them.

use pipezero_config::{PartitionConfig, ResidencyConfig, Run};
use pipezero_models::Model;
use pipezero_schedule::PipelineRank;
use pipezero_schedule::protocol::gather_buffer_bytes;

use super::{Plan, PlanError};

/// Of its host's memory `level` leaves one part in so many free: for the system, other programs, and what a process holds beside its
/// ranks.
const HOST_SHARE: u64 = 4;

impl Plan {
    /// The plan of a run, with the fewest resident units where the run leaves their number to the plan.
    ///
    /// So the split comes before the residency. A balanced one is as fast as `memory` allows any to be, and what it leaves is
    /// for residency. Rejected: a split for each residency, which gives up a faster slowest stage in every micro-batch to save
    /// gathers that prefetching may hide.
    ///
    /// # Errors
    /// Those of `planned`; [`PlanError::NoMemoryGiven`] where `auto` has no memory to fill.
    pub(super) fn with_least_residency(
        mut run: Run,
        model: Model,
        planned: fn(Run, Model) -> Result<Self, PlanError>,
    ) -> Result<Self, PlanError> {
        let asked_residency = run.zero.resident_units.clone();
        if asked_residency == ResidencyConfig::Auto && run.memory_bytes.is_none() {
            return Err(PlanError::NoMemoryGiven);
        }
        if matches!(asked_residency, ResidencyConfig::Level | ResidencyConfig::Auto) {
            run.zero.resident_units = least_residency(&run);
        }
        Ok(Self { asked_residency, ..planned(run, model)? })
    }

    /// This plan of a run with the fewest resident units, with those that the run asks for, compared with ZeRO-1.
    ///
    /// # Errors
    /// As [`Plan::filled`].
    pub(super) fn filled_and_compared(mut self) -> Result<Self, PlanError> {
        self.beside_zero_1 = self.compared_with_zero_1()?;
        self.filled()
    }

    /// This plan of a run with the fewest resident units, with those that the run asks for.
    ///
    /// # Errors
    /// [`PlanError::RankMemory`] where not even these fit `memory`.
    pub(super) fn filled(self) -> Result<Self, PlanError> {
        let mut plan = self.fitting()?;
        if plan.asked_residency == ResidencyConfig::Level && plan.beside_zero_1.is_empty() {
            plan.beside_zero_1 = plan.compared_with_zero_1()?;
        }
        match (&plan.asked_residency, plan.run.memory_bytes) {
            (ResidencyConfig::Level, _) => plan.levelled(),
            (ResidencyConfig::Auto, Some(limit_bytes)) => {
                plan.filled_to(&vec![limit_bytes; plan.grid.pipeline_degree])
            }
            _ => Ok(plan),
        }
    }

    /// Each rank filled up to the lower of the fullest rank's peak and 95% of its own under ZeRO-1: memory that nothing else
    /// of the run uses, and with which ZeRO-3 still pays.
    ///
    /// Where all ranks run on one host, they may fill three quarters of its memory ([`HOST_SHARE`]): the level is lowered until they do, but never below
    /// what the fewest resident units need. A host that is too small for those is taken for another one than the run's.
    pub(super) fn levelled(self) -> Result<Self, PlanError> {
        let Some(fullest) = self.beside_zero_1.iter().map(|rank| rank.peak_bytes).max() else {
            return Ok(self);
        };
        let bounds = |level_bytes: u64| -> Vec<u64> {
            self.beside_zero_1.iter().map(|rank| rank.most_that_pays_bytes().min(level_bytes)).collect()
        };
        let plan = self.filled_to(&bounds(fullest))?;
        let host_bytes = self.run.host_memory_bytes.filter(|&bytes| self.needs().world_bytes <= bytes);
        let host_bytes = host_bytes.map(|bytes| bytes - bytes / HOST_SHARE);
        let Some(host_bytes) = host_bytes.filter(|&bytes| plan.needs().world_bytes > bytes) else {
            return Ok(plan);
        };
        let num_data_ranks = self.grid.data_degree as u64;
        // Upper bounds: a program may fill fewer buffers than its number allows.
        let filled = self.filled_peaks();
        let world_bytes_at = |level_bytes| {
            let of_ranks = filled.iter().zip(bounds(level_bytes));
            let peaks = of_ranks.map(|(rank, bound)| rank.peak_bytes(rank.most_within(bound)));
            peaks.fold(0, |sum: u64, peak| sum.saturating_add(peak.saturating_mul(num_data_ranks)))
        };
        let (mut fitting, mut too_high) = (0, fullest);
        while fitting + 1 < too_high {
            let level_bytes = fitting.midpoint(too_high);
            if world_bytes_at(level_bytes) <= host_bytes {
                fitting = level_bytes;
            } else {
                too_high = level_bytes;
            }
        }
        let plan = self.with_resident_units(&self.suggested(&bounds(fitting)))?;
        Ok(Self { is_level_lowered: true, ..plan })
    }

    /// This plan with as many resident units on each rank as its bound lets it have; where a rank is beyond its bound already,
    /// it stays as it is.
    ///
    /// A program may fill fewer or smaller buffers than its number allows, so only a plan shows what a number needs. What a
    /// rank gathers depends on its own number alone, so one plan tries a number on every rank. All its units come first: each
    /// then has a buffer of its own size, so they may need less than one unit fewer, which take buffers in turn. Then comes
    /// what the sizes of the units suggest, which is nearly always right or next to it.
    fn filled_to(&self, bounds: &[u64]) -> Result<Self, PlanError> {
        let suggested = self.suggested(bounds);
        let mut fitting = vec![self.least_resident_units(); suggested.len()];
        let mut next: Vec<usize> =
            self.training.ranks().map(|rank| self.gathered_unit_bytes(rank).len()).collect();
        let mut too_many: Vec<usize> = next.iter().map(|all| all + 1).collect();
        let all = next.clone();
        let mut fitting_plan = None;
        loop {
            let try_on = |rank: usize| match fitting[rank] + 1 < too_many[rank] {
                true => next[rank].clamp(fitting[rank] + 1, too_many[rank] - 1),
                false => fitting[rank],
            };
            let tried: Vec<usize> = (0..next.len()).map(try_on).collect();
            if tried == fitting {
                return match fitting_plan {
                    Some((of, plan)) if of == fitting => Ok(plan),
                    _ => self.with_resident_units(&fitting),
                };
            }
            let plan = self.with_resident_units(&tried)?;
            for (rank, &tried) in tried.iter().enumerate() {
                if plan.peak_of(PipelineRank(rank as u32)) <= bounds[rank] {
                    (fitting[rank], next[rank]) = (tried, tried + 1);
                } else {
                    let is_first = tried == all[rank];
                    (too_many[rank], next[rank]) =
                        (tried, if is_first { suggested[rank] } else { tried - 1 });
                }
            }
            if fitting == tried {
                fitting_plan = Some((tried, plan));
            }
        }
    }

    /// How many units every rank may hold within its bound, if it fills all buffers that they allow.
    fn suggested(&self, bounds: &[u64]) -> Vec<usize> {
        self.filled_peaks().iter().zip(bounds).map(|(rank, &bound)| rank.most_within(bound)).collect()
    }

    /// `[pipeline rank]`: its peak with each number of resident units.
    fn filled_peaks(&self) -> Vec<FilledPeaks> {
        let least = self.least_resident_units();
        let of_rank = |rank: PipelineRank| {
            let num_gathered: usize = self.gather_buffers(rank).iter().flatten().sum();
            let gathered_bytes = (self.element_type().num_bytes() * num_gathered) as u64;
            // The buffers of a smaller number are the first of these.
            let buffers = gather_buffer_bytes(self.gathered_unit_bytes(rank), usize::MAX);
            let mut peak_bytes = vec![self.peak_of(rank) - gathered_bytes];
            peak_bytes.extend(buffers.into_iter().scan(peak_bytes[0], |sum, bytes| {
                *sum = sum.saturating_add(bytes);
                Some(*sum)
            }));
            FilledPeaks { peak_bytes, least }
        };
        self.training.ranks().map(of_rank).collect()
    }

    fn least_resident_units(&self) -> usize {
        1 + self.run.zero.prefetch_units
    }

    /// The fewest resident units that the run can have.
    pub(super) fn least_residency(&self) -> ResidencyConfig {
        least_residency(&self.run)
    }

    /// The plan of the same run with these numbers of resident units, in the shortest form that says them.
    fn with_resident_units(&self, of_ranks: &[usize]) -> Result<Self, PlanError> {
        let gathered = self.training.ranks().map(|rank| self.gathered_unit_bytes(rank).len());
        let has_all = of_ranks.iter().zip(gathered).all(|(&own, gathered)| own >= gathered);
        let residency = match of_ranks {
            _ if has_all => ResidencyConfig::All,
            [first, others @ ..] if others.iter().all(|other| other == first) => {
                ResidencyConfig::Units(*first)
            }
            _ => ResidencyConfig::PerRank(of_ranks.to_vec()),
        };
        self.with_residency(residency)
    }

    /// The plan of the same run with another residency, on the split that this plan has: a balanced one would answer to
    /// other memory with other stages.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub(super) fn with_residency(&self, resident_units: ResidencyConfig) -> Result<Self, PlanError> {
        if resident_units == self.run.zero.resident_units {
            return Ok(self.clone());
        }
        let plan = self.on_this_split(|run| run.zero.resident_units = resident_units)?;
        Ok(Self {
            asked_residency: self.asked_residency.clone(),
            asked_sharding: self.asked_sharding.clone(),
            auto_recomputation: self.auto_recomputation,
            auto_overlap: self.auto_overlap,
            least_tried_peak_bytes: self.least_tried_peak_bytes.clone(),
            beside_zero_1: self.beside_zero_1.clone(),
            ..plan
        })
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
        Ok(plan)
    }
}

/// The peaks of a rank if it has all buffers that a number of resident units allows it.
struct FilledPeaks {
    /// `[number]`: ascending; the last of all its units.
    peak_bytes: Vec<u64>,
    /// The fewest units that it may hold.
    least: usize,
}

impl FilledPeaks {
    /// The most units with which it stays within a bound, or the fewest that it may hold.
    fn most_within(&self, bound_bytes: u64) -> usize {
        let num_fitting = self.peak_bytes.partition_point(|&bytes| bytes <= bound_bytes);
        num_fitting.saturating_sub(1).max(self.least)
    }

    fn peak_bytes(&self, number: usize) -> u64 {
        self.peak_bytes[number.min(self.peak_bytes.len() - 1)]
    }
}

fn least_residency(run: &Run) -> ResidencyConfig {
    ResidencyConfig::Units(1 + run.zero.prefetch_units)
}
