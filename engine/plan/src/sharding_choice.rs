//! `"sharding": "auto"`: the list of what is sharded, persistent and whole, chosen from what each rank's programs would need.
//!
//! The choice itself is [`pipezero_partition::choose`]. Here its costs are read off the plan in which everything is sharded, and what
//! is chosen becomes a list of names, as a user would write it. It reckons with the residency that the run fixes; where that is left to
//! the plan, with `1 + prefetch_units` gathered units, as what stays resident beyond them is decided afterwards.

use std::iter::repeat_n;

use pipezero_config::{ShardingConfig, ZeroLevel};
use pipezero_partition::{
    RankChoice, RankCosts, RankMemory, ReductionPolicy, Traffic, UnitSharding, WeightCosts, choose,
};
use pipezero_schedule::lower::RowReads;
use pipezero_schedule::protocol::unreduced_gradients;
use pipezero_schedule::{PipelineRank, Unit, Weights};

use super::costs::GRADIENT_BYTES;
use super::rank_rows::{RankRows, without_repeats};
use super::sharding_list::list;
use super::{Plan, PlanError, programs};

impl Plan {
    /// This plan, in which everything is sharded, with the list that the plan is to make; as it is where the run has a list.
    ///
    /// Cost: of each rank the row is planned once for every set of sharded weights that may be chosen, at most 2 to the number of its
    /// weights and a few hundred times. Without `memory` those are few.
    ///
    /// # Errors
    /// [`PlanError::SameNames`] where no list of names says what was chosen.
    pub(super) fn with_chosen_sharding(mut self) -> Result<Self, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.run.zero.sharding != ShardingConfig::Auto {
            return Ok(self);
        }
        let mut kinds = vec![UnitSharding::Sharded; self.units.len()];
        let least_bytes = self.choose_sharding(&mut kinds)?;
        // The comparison with ZeRO-1, beside which they stand, counts with the fewest resident units.
        if self.run.zero.resident_units == self.least_residency() {
            self.least_tried_peak_bytes = least_bytes;
        }
        self.run.zero.sharding = ShardingConfig::Listed(list(&self.graph, &self.units, &kinds)?);
        self.run.zero.param_persistence_threshold = 0;
        if kinds.iter().all(|&kind| kind == UnitSharding::Sharded) {
            return Ok(self);
        }
        for (unit, kind) in self.units.iter_mut().zip(kinds) {
            unit.divide(&vec![kind; unit.unit.entries().len()], self.grid.data_degree);
        }
        (self.training, self.evaluation) = programs::both(&self.run, &self.order, &self.units)?;
        Ok(self)
    }

    /// Sets what becomes of each unit, and returns each rank's lowest peak with the lists that were tried.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    fn choose_sharding(&self, kinds: &mut [UnitSharding]) -> Result<Vec<u64>, PlanError> {
        let gathered = programs::weights(&self.run)?;
        let groups: Vec<Group> = self
            .ranks_chosen_together()
            .into_iter()
            .map(|ranks| {
                let weights: Vec<Vec<Vec<Unit>>> = ranks.iter().map(|&rank| self.weights_of(rank)).collect();
                let of_ranks = ranks.iter().zip(&weights);
                let costs: Vec<RankCosts<RankRows<'_>>> =
                    of_ranks.map(|(&rank, weights)| self.costs_of(rank, weights, &gathered)).collect();
                let chosen = choose(&costs, self.run.memory_bytes);
                Group { ranks, weights, chosen }
            })
            .collect();
        let mut least_bytes = vec![0; self.grid.pipeline_degree];
        for Group { ranks, weights, chosen, .. } in groups {
            for ((rank, weights), chosen) in ranks.iter().zip(&weights).zip(chosen) {
                least_bytes[rank.index()] = chosen.least_peak_bytes;
                for (uses, kind) in weights.iter().zip(chosen.kinds) {
                    uses.iter().for_each(|unit| kinds[unit.index()] = kind);
                }
            }
        }
        Ok(least_bytes)
    }

    /// All pipeline ranks: the two that share a tied weight together, every other one by itself.
    fn ranks_chosen_together(&self) -> Vec<Vec<PipelineRank>> {
        let tied = self.tied_pipeline_ranks();
        let together = |rank: PipelineRank| match tied {
            Some((_, other)) if other == rank => None,
            Some((first, other)) if first == rank => Some(vec![first, other]),
            _ => Some(vec![rank]),
        };
        self.training.ranks().filter_map(together).collect()
    }

    /// A rank's weights, each as the units that use it there.
    fn weights_of(&self, rank: PipelineRank) -> Vec<Vec<Unit>> {
        let units: Vec<Unit> = self.units_of(rank).map(|(unit, _)| unit).collect();
        let owned = units.iter().filter(|&&unit| self.weights_owner(unit) == unit);
        let uses =
            |owner: &Unit| units.iter().copied().filter(|&unit| self.weights_owner(unit) == *owner).collect();
        owned.map(uses).collect()
    }

    /// What each of a rank's weights costs, of whatever kind, and its rows.
    fn costs_of<'a>(
        &'a self,
        rank: PipelineRank,
        weights: &[Vec<Unit>],
        gathered: &'a Weights,
    ) -> RankCosts<RankRows<'a>> {
        let units: Vec<Unit> = self.units_of(rank).map(|(unit, _)| unit).collect();
        let place = |unit: Unit| units.binary_search(&unit).expect("a rank's weights are used by its units");
        let places: Vec<Vec<usize>> =
            weights.iter().map(|uses| uses.iter().map(|&unit| place(unit)).collect()).collect();
        let unit_bytes: Vec<u64> =
            units.iter().map(|&unit| self.training.chain().facts(unit).num_bytes).collect();
        let (fixed, costs, message_bytes) = self.weight_costs(rank, weights, &places, &unit_bytes);
        let gradients = unreduced_gradients(self.training.program(), rank);
        RankCosts {
            weights: costs,
            fixed_peak_bytes: fixed.peak_bytes,
            fixed_sent_bytes: fixed.sent_bytes,
            may_be_zero_2: !self.refuses_zero_2() || self.run.zero.reduce == ReductionPolicy::Last,
            row: RankRows {
                training: RowReads::new(self.training.program(), rank, gathered),
                evaluation: RowReads::new(self.evaluation.program(), rank, gathered),
                gradients: without_repeats(gradients.into_iter().map(place).collect()),
                unreduced: self.training.options().unreduced,
                unit_bytes,
                gradient_bytes: units
                    .iter()
                    .map(|&unit| (GRADIENT_BYTES * self.unit(unit).gradient_len()) as u64)
                    .collect(),
                message_bytes,
                places,
            },
        }
    }

    /// What the rank needs and sends whatever is chosen, what each weight adds, and what the rank sends in a gather of each of its units.
    fn weight_costs(
        &self,
        rank: PipelineRank,
        weights: &[Vec<Unit>],
        places: &[Vec<usize>],
        unit_bytes: &[u64],
    ) -> (Fixed, Vec<WeightCosts>, Vec<u64>) {
        let mut memory = self.memory_facts(rank);
        memory.gather_buffer_elements.clear();
        memory.gradient_buffer_elements.clear();
        // Of a unit of which a part is frozen there are two entries.
        let of_parts: Vec<usize> = self
            .units_of(rank)
            .map(|(_, unit)| unit.parts.len())
            .enumerate()
            .flat_map(|(place, num_parts)| repeat_n(place, num_parts))
            .collect();
        let mut peak_with = |kinds: &[UnitSharding]| {
            let units = memory.stages.iter_mut().flat_map(|stage| &mut stage.units);
            units.zip(&of_parts).for_each(|(unit, &place)| unit.sharding = kinds[place]);
            RankMemory::of(&memory).peak
        };
        let mut traffic = self.traffic_facts(rank);
        let mut sent_with = |kinds: &[UnitSharding], gathered: Option<usize>| {
            let units = traffic.stages.iter_mut().flat_map(|stage| &mut stage.units);
            for (unit, &place) in units.zip(&of_parts) {
                (unit.sharding, unit.num_gathers) = (kinds[place], u64::from(gathered == Some(place)));
            }
            Traffic::of(&traffic).total_bytes()
        };
        let sharded = vec![UnitSharding::Sharded; unit_bytes.len()];
        let fixed_peak_bytes = peak_with(&sharded);
        let mut fixed_sent_bytes = sent_with(&sharded, None);
        let message_bytes =
            (0..unit_bytes.len()).map(|place| sent_with(&sharded, Some(place)) - fixed_sent_bytes).collect();
        let mut costs = Vec::with_capacity(weights.len());
        for (weight, places) in weights.iter().zip(places) {
            let with = |kind| {
                let mut kinds = sharded.clone();
                places.iter().for_each(|&place| kinds[place] = kind);
                kinds
            };
            let at_rest_bytes =
                UnitSharding::ALL.map(|kind| peak_with(&with(kind)).saturating_sub(fixed_peak_bytes));
            let sent = UnitSharding::ALL.map(|kind| sent_with(&with(kind), None));
            let fewest = sent.into_iter().min().unwrap_or(0);
            let sent_bytes = sent.map(|bytes| bytes - fewest);
            fixed_sent_bytes = fixed_sent_bytes.saturating_sub(sent_bytes[UnitSharding::Sharded as usize]);
            let owner = self.unit(weight[0]);
            costs.push(WeightCosts {
                num_elements: owner.parts.iter().map(|part| part.num_elements as u64).sum(),
                num_trained: owner.trained_parts().map(|part| part.num_elements as u64).sum(),
                gathered_bytes: places.iter().map(|&place| unit_bytes[place]).fold(0, u64::saturating_add),
                at_rest_bytes,
                sent_bytes,
                must_be_whole: self.grid.pipeline_degree > 1 && self.lone_unit_of(rank) == Some(weight[0]),
                tied: self.tied_elsewhere(weight[0]),
            });
        }
        (Fixed { peak_bytes: fixed_peak_bytes, sent_bytes: fixed_sent_bytes }, costs, message_bytes)
    }

    /// The number of the tied weight that a unit uses, if its other use is on another rank.
    fn tied_elsewhere(&self, unit: Unit) -> Option<usize> {
        self.tied_pipeline_ranks()?;
        let pairs = self.training.chain().tied_pairs();
        pairs.iter().position(|&(embedding, head)| embedding == unit || head == unit)
    }
}

/// Ranks that are chosen for together.
struct Group {
    ranks: Vec<PipelineRank>,
    /// `[rank][weight]`: the units that use it.
    weights: Vec<Vec<Vec<Unit>>>,
    /// `[rank]`
    chosen: Vec<RankChoice>,
}

/// What a rank needs and sends whatever is chosen for it.
struct Fixed {
    peak_bytes: u64,
    sent_bytes: u64,
}
