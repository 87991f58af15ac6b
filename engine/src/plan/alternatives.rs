//! The same run with one thing changed: what every residency would cost, and what would make a run fit.
//!
//! Each alternative is planned like a run of its own, program and all, so its figures are those of a run.

use std::fmt;

use pipezero_schedule::PipelineRank;
use serde::Serialize;

use super::{Plan, PlanError};
use crate::config::{Checkpointing, ResidencyConfig, Run, UnitLayersConfig, ZeroLevel};
use crate::memory::Bytes;

/// What a residency costs, over the ranks of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidencyCost {
    /// `strict`, a number of units, or `all`.
    pub resident_units: String,
    /// All-gathers of a step, on the rank with the most.
    pub num_gathers: u64,
    /// Bytes that a rank sends in them, on the rank with the most.
    pub gathered_bytes: u64,
    /// Peak memory of the fullest rank.
    pub peak_bytes: u64,
    /// Whether it is the run's own.
    pub is_chosen: bool,
}

/// A change to the run file and what the fullest rank would need with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The keys and their values: `"resident_units": "strict"`.
    pub description: String,
    /// Peak memory of the fullest rank, and of all ranks together.
    pub needs: Needs,
}

/// Peak memory of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Of the fullest rank.
    pub rank_bytes: u64,
    /// Of all ranks.
    pub world_bytes: u64,
}

/// Changes as the end of a message.
#[derive(Debug)]
pub(crate) struct Changes<'a>(pub(crate) &'a [Change]);

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(
                "; no single change makes it fit: use a smaller model or sequence, or more ranks",
            );
        }
        f.write_str("; any one of these makes it fit:")?;
        self.0.iter().try_for_each(|Change { description, needs }| {
            write!(f, "\n  {description}  ({} on the fullest rank)", Bytes(needs.rank_bytes))
        })
    }
}

/// Most rows of a table of residencies: between the first and the last, numbers are left out evenly.
const MOST_RESIDENCIES: usize = 12;

impl Plan {
    /// Peak memory in training.
    pub fn needs(&self) -> Needs {
        let forecast = self.forecast();
        let peaks = forecast.iter().map(|rank| rank.memory.peak);
        Needs { rank_bytes: peaks.clone().max().unwrap_or(0), world_bytes: peaks.sum() }
    }

    /// What every residency from strict to all would cost this run; empty below ZeRO-3, where nothing is gathered
    /// during a step.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub fn residencies(&self) -> Result<Vec<ResidencyCost>, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 {
            return Ok(Vec::new());
        }
        let (least, most) = (1 + self.run.zero.prefetch_units, self.most_units_of_a_rank());
        let numbers: Vec<usize> = (least..most).collect();
        let step = numbers.len().div_ceil(MOST_RESIDENCIES).max(1);
        let shown = numbers.iter().step_by(step).copied().map(ResidencyConfig::Units);
        let choices = std::iter::once(ResidencyConfig::Strict).chain(shown).chain([ResidencyConfig::All]);
        let mut costs: Vec<ResidencyCost> =
            choices.map(|residency| self.with_residency(residency)).collect::<Result<_, _>>()?;
        if costs.iter().all(|cost| !cost.is_chosen) {
            // Its number was left out.
            let own = self.with_residency(self.run.zero.resident_units)?;
            let place = costs.partition_point(|cost| cost.num_gathers > own.num_gathers);
            costs.insert(place, own);
        }
        Ok(costs)
    }

    fn with_residency(&self, resident_units: ResidencyConfig) -> Result<ResidencyCost, PlanError> {
        let mut run = self.run.clone();
        run.zero.resident_units = resident_units;
        let plan = Self::planned(run, self.model.clone())?;
        let forecast = plan.forecast();
        let most = |of: fn(&super::RankForecast) -> u64| forecast.iter().map(of).max().unwrap_or(0);
        Ok(ResidencyCost {
            resident_units: match resident_units {
                ResidencyConfig::Strict => "strict".to_owned(),
                ResidencyConfig::Units(units) => units.to_string(),
                ResidencyConfig::All | ResidencyConfig::Auto => "all".to_owned(),
            },
            num_gathers: most(|rank| rank.traffic.all_gather.count),
            gathered_bytes: most(|rank| rank.traffic.all_gather.bytes),
            peak_bytes: most(|rank| rank.memory.peak),
            is_chosen: resident_units == self.run.zero.resident_units,
        })
    }

    /// The most units that one rank gathers.
    pub(super) fn most_units_of_a_rank(&self) -> usize {
        let ranks = (0..self.grid.pipeline_degree as u32).map(PipelineRank);
        ranks.map(|rank| self.gathered_unit_bytes(rank).len()).max().unwrap_or(0)
    }

    /// The error that the fullest rank needs more than it has.
    pub(super) fn rank_does_not_fit(&self, limit_bytes: u64) -> PlanError {
        let forecast = self.forecast();
        let fullest = forecast.iter().rev().max_by_key(|rank| rank.memory.peak).expect("a grid has ranks");
        let stages = self.training.placement().stages(PipelineRank(fullest.pipeline_rank as u32));
        PlanError::RankMemory {
            rank: fullest.rank,
            stage: stages.map(|stage| stage.index()).min().unwrap_or(0),
            needs_bytes: fullest.memory.peak,
            limit_bytes,
            changes: self.changes_that_fit(|needs| needs.rank_bytes <= limit_bytes),
        }
    }

    /// Single changes to the run with which `fits` holds, the mildest first.
    pub fn changes_that_fit(&self, fits: impl Fn(Needs) -> bool) -> Vec<Change> {
        let candidates = candidates(&self.run).into_iter();
        let planned = candidates.filter_map(|(description, run)| {
            let plan = Self::planned(run, self.model.clone()).ok()?;
            plan.is_allowed().then(|| Change { description, needs: plan.needs() })
        });
        planned.filter(|change| fits(change.needs)).collect()
    }
}

impl Plan {
    /// Whether the run file would accept it: ZeRO-3 with a pipeline has more than one unit on every rank.
    fn is_allowed(&self) -> bool {
        let mut ranks = (0..self.grid.pipeline_degree as u32).map(PipelineRank);
        let has_units = |rank| self.units_of(rank).nth(1).is_some();
        self.run.zero.level != ZeroLevel::Zero3 || self.grid.pipeline_degree == 1 || ranks.all(has_units)
    }
}

/// Changes that save memory, in the order of what they cost: first traffic, then recomputation, then the shape of the
/// batch.
fn candidates(run: &Run) -> Vec<(String, Run)> {
    let mut found = Vec::new();
    let mut add = |description: String, change: &dyn Fn(&mut Run)| {
        let mut changed = run.clone();
        change(&mut changed);
        if changed != *run {
            found.push((description, changed));
        }
    };
    if run.zero.level == ZeroLevel::Zero3 {
        let least = 1 + run.zero.prefetch_units;
        add(format!("\"resident_units\": {least}"), &|run| {
            run.zero.resident_units = ResidencyConfig::Units(least);
        });
        add("\"resident_units\": 1, \"prefetch_units\": 0".to_owned(), &|run| {
            run.zero.resident_units = ResidencyConfig::Units(1);
            run.zero.prefetch_units = 0;
        });
        add("\"unit_layers\": 0.5".to_owned(), &|run| run.zero.unit_layers = UnitLayersConfig::Half);
    } else if run.parallel.data > 1 {
        add("\"stage\": 3".to_owned(), &|run| {
            run.zero.level = ZeroLevel::Zero3;
            run.zero.reduce = crate::config::ReductionPolicy::Every;
            run.zero.resident_units = ResidencyConfig::Units(1 + run.zero.prefetch_units);
        });
    }
    add("\"activation_checkpointing\": {\"enabled\": true}".to_owned(), &|run| {
        run.checkpointing = Checkpointing::Unit;
    });
    let batch = run.batch;
    let divisors =
        (1..batch.micro_batch_size).rev().filter(|&size| batch.micro_batch_size.is_multiple_of(size));
    for size in divisors {
        let num_micro_batches = batch.num_micro_batches * (batch.micro_batch_size / size);
        let description = format!(
            "\"train_micro_batch_size_per_gpu\": {size}, \"gradient_accumulation_steps\": {num_micro_batches}"
        );
        add(description, &|run| {
            run.batch.micro_batch_size = size;
            run.batch.num_micro_batches = num_micro_batches;
        });
    }
    found
}
