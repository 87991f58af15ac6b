//! What every residency would cost the run: the trade of gathers for memory, in one table.
//!
//! Each is planned like a run of its own, program and all, on the split that the run has.

use std::ops::Range;

use pipezero_config::{ResidencyConfig, ZeroLevel};
use pipezero_partition::LayerRole;
use serde::Serialize;

use super::{Plan, PlanError, PlannedUnit};

/// What a residency costs. But for the gathers of all ranks, each figure is the largest over the ranks of the grid, taken
/// separately, so the figures of a row may be of different ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidencyCost {
    /// As a run file has it: a number of units, a list of them, or a word.
    pub resident_units: ResidencyConfig,
    /// All-gathers of a step, of all pipeline ranks together.
    pub num_gathers_of_all: u64,
    /// All-gathers of a step, on the rank with the most: not always the one that sends most, nor the fullest.
    pub num_gathers: u64,
    /// Bytes that a rank sends in all-gathers of a step, on the rank that sends most.
    pub gathered_bytes: u64,
    /// Peak memory of the fullest rank.
    pub peak_bytes: u64,
    /// Whether it is the run's own.
    pub is_chosen: bool,
}

/// Most numbers in a table of residencies: beyond, some are left out evenly.
const MOST_NUMBERS: usize = 12;

impl Plan {
    /// Instructions of a step beyond which residencies are not compared, nor a step simulated unasked: each of up to 16 is planned in full, a million
    /// instructions in about a second.
    pub const COMPARED_INSTRUCTIONS_MAX: usize = 150_000;

    /// Instructions x units that a rank gathers beyond which residencies are not compared: where many units may stay, each gather is chosen among
    /// them.
    pub const COMPARED_CHOICES_MAX: usize = 20_000_000;

    /// What every residency from strict to all would cost this run, as by [`Plan::residencies`]; `None` for a run of more than
    /// [`Plan::COMPARED_INSTRUCTIONS_MAX`] instructions, or [`Plan::COMPARED_CHOICES_MAX`].
    ///
    /// # Errors
    /// As [`Plan::residencies`].
    pub fn residencies_in_time(&self) -> Result<Option<Vec<ResidencyCost>>, PlanError> {
        let num_instructions = self.num_instructions();
        let num_choices = num_instructions.saturating_mul(self.most_units_of_a_rank());
        let is_compared =
            num_instructions <= Self::COMPARED_INSTRUCTIONS_MAX && num_choices <= Self::COMPARED_CHOICES_MAX;
        is_compared.then(|| self.residencies()).transpose()
    }

    /// What every residency from strict to all would cost this run; empty below ZeRO-3 and on one data rank, where
    /// nothing is gathered during a step.
    ///
    /// Cost: up to 18 plans of this run.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub fn residencies(&self) -> Result<Vec<ResidencyCost>, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 {
            return Ok(Vec::new());
        }
        let (least, most) = (1 + self.run.zero.prefetch_units, self.most_units_of_a_rank());
        let step = most.saturating_sub(least).div_ceil(MOST_NUMBERS).max(1);
        let mut numbers: Vec<usize> = (least..most).step_by(step).collect();
        let own = &self.asked_residency;
        if let ResidencyConfig::Units(own) = own
            && let Err(place) = numbers.binary_search(own)
        {
            numbers.insert(place, *own);
        }
        let mut residencies = vec![ResidencyConfig::Strict];
        residencies.extend(numbers.into_iter().map(ResidencyConfig::Units));
        residencies.push(ResidencyConfig::All);
        let costs = residencies
            .iter()
            .filter(|of| *of != own)
            .map(|of| Ok(self.with_residency(of.clone())?.cost(of)));
        let mut costs: Vec<ResidencyCost> = costs.collect::<Result<_, PlanError>>()?;
        if *own != ResidencyConfig::Level {
            let level = self.with_residency(self.least_residency())?.levelled()?;
            costs.push(level.cost(&ResidencyConfig::Level));
        }
        // What the run leaves to the plan, and a list, come after what is the same on all ranks.
        let place = residencies.iter().position(|of| of == own).unwrap_or(costs.len());
        costs.insert(place, ResidencyCost { is_chosen: true, ..self.cost(own) });
        Ok(costs)
    }

    /// What this plan's residency costs, under the name that a run file gives it.
    fn cost(&self, resident_units: &ResidencyConfig) -> ResidencyCost {
        let gathers = || self.training.ranks().map(|rank| self.traffic_of(rank).all_gather);
        ResidencyCost {
            resident_units: resident_units.clone(),
            num_gathers_of_all: gathers().map(|of| of.count).sum(),
            num_gathers: gathers().map(|of| of.count).max().unwrap_or(0),
            gathered_bytes: gathers().map(|of| of.bytes).max().unwrap_or(0),
            peak_bytes: self.fullest_rank().1,
            is_chosen: false,
        }
    }

    /// Transformer blocks of each stage.
    pub(super) fn blocks_per_stage(&self) -> Vec<usize> {
        let stages = self.units.chunk_by(|one, next| one.stage == next.stage);
        let layers = |stage: &[PlannedUnit]| stage[0].layers.start..stage[stage.len() - 1].layers.end;
        stages.map(|stage| self.num_blocks(layers(stage))).collect()
    }

    /// Transformer blocks that some layers are of; a block may be two of them, attention and MLP.
    pub(super) fn num_blocks(&self, layers: Range<usize>) -> usize {
        let index_of = |layer| match self.graph.layer(layer).role {
            LayerRole::Block { index } => Some(index),
            LayerRole::Embedding | LayerRole::Head => None,
        };
        let mut blocks: Vec<usize> = layers.filter_map(index_of).collect();
        blocks.dedup();
        blocks.len()
    }

    /// The most units that one rank gathers.
    pub(super) fn most_units_of_a_rank(&self) -> usize {
        self.training.ranks().map(|rank| self.gathered_unit_bytes(rank).len()).max().unwrap_or(0)
    }

    /// Instructions of a training step on all pipeline ranks together: what planning it again would cost.
    pub fn num_instructions(&self) -> usize {
        self.training.ranks().map(|rank| self.training.row(rank).len()).sum()
    }

    /// Instructions of a training step on all world ranks together.
    pub fn num_instructions_of_world(&self) -> usize {
        self.num_instructions().saturating_mul(self.grid.data_degree)
    }
}
