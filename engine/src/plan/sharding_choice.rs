//! `"sharding": "auto"`: the list of what is sharded, persistent and whole, chosen from what each rank's programs would need.
//!
//! The choice itself is [`pipezero_partition::choose`]. Here its costs are read off the plan in which everything is sharded, and what
//! is chosen becomes a list of names, as a user would write it. It reckons with `1 + prefetch_units` gathered units, which a run
//! needs at least: what stays resident beyond them is decided afterwards.

use std::num::NonZeroU32;

use pipezero_partition::{
    GatherCosts, Purpose, RankCosts, RankFacts, RankMemory, RankRow, ReductionPolicy, Traffic, TrafficFacts,
    UnitSharding, WeightCosts, choose,
};
use pipezero_schedule::lower::{RowGathers, RowReads};
use pipezero_schedule::protocol::{gradient_buffer_bytes, unreduced_gradients};
use pipezero_schedule::{PipelineRank, Residency, Unit};

use super::sharding_list::list;
use super::{Plan, PlanError, programs};
use crate::config::{Run, ShardingConfig, ZeroLevel};

impl Plan {
    /// The run as its author asked for it: with what the plan has resolved since left to the plan again.
    pub(super) fn asked_run(&self) -> Run {
        let mut run = self.run.clone();
        run.zero.resident_units = self.asked_residency.clone();
        run.zero.sharding = self.asked_sharding.clone();
        run
    }

    /// This plan, in which everything is sharded, with the list that the plan is to make; as it is where the run has a list.
    ///
    /// # Errors
    /// [`PlanError::SameNames`] where no list of names says what was chosen.
    pub(super) fn with_chosen_sharding(mut self) -> Result<Self, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.run.zero.sharding != ShardingConfig::Auto {
            return Ok(self);
        }
        let mut kinds = vec![UnitSharding::Sharded; self.units.len()];
        if self.grid.data_degree > 1 {
            self.least_of_lists_bytes = self.choose_sharding(&mut kinds);
        }
        self.run.zero.sharding = ShardingConfig::Listed(list(&self.graph, &self.units, &kinds)?);
        self.run.zero.param_persistence_threshold = 0;
        if kinds.iter().all(|&kind| kind == UnitSharding::Sharded) {
            return Ok(self);
        }
        for (unit, kind) in self.units.iter_mut().zip(kinds) {
            unit.sharding = kind;
        }
        self.training = programs::checked(&self.run, &self.order, &self.units)?;
        let evaluation = programs::evaluation_order(&self.run, &self.order)?;
        self.evaluation = programs::checked(&self.run, &evaluation, &self.units)?;
        Ok(self)
    }

    /// Sets what becomes of each unit, and returns the lowest peak that a list can give each rank.
    fn choose_sharding(&self, kinds: &mut [UnitSharding]) -> Vec<u64> {
        let mut least_bytes = vec![0; self.grid.pipeline_degree];
        let tied = self.tied_pipeline_ranks();
        for rank in self.training.ranks() {
            let ranks = match tied {
                Some((_, other)) if other == rank => continue,
                Some((first, other)) if first == rank => vec![first, other],
                _ => vec![rank],
            };
            let weights: Vec<Vec<Vec<Unit>>> = ranks.iter().map(|&rank| self.weights_of(rank)).collect();
            let costs: Vec<RankCosts<Row<'_>>> =
                ranks.iter().zip(&weights).map(|(&rank, weights)| self.costs_of(rank, weights)).collect();
            let chosen = choose(&costs, self.run.memory_bytes);
            for ((rank, weights), chosen) in ranks.iter().zip(&weights).zip(chosen) {
                least_bytes[rank.index()] = chosen.least_peak_bytes;
                for (uses, kind) in weights.iter().zip(chosen.kinds) {
                    uses.iter().for_each(|unit| kinds[unit.index()] = kind);
                }
            }
        }
        least_bytes
    }

    /// A rank's weights, each as the units that use it there.
    fn weights_of(&self, rank: PipelineRank) -> Vec<Vec<Unit>> {
        let units: Vec<Unit> = self.units_of(rank).map(|(unit, _)| unit).collect();
        let owned = units.iter().filter(|&&unit| self.weights_owner(unit) == unit);
        let uses =
            |owner: &Unit| units.iter().copied().filter(|&unit| self.weights_owner(unit) == *owner).collect();
        owned.map(uses).collect()
    }

    fn costs_of(&self, rank: PipelineRank, weights: &[Vec<Unit>]) -> RankCosts<Row<'_>> {
        let units: Vec<Unit> = self.units_of(rank).map(|(unit, _)| unit).collect();
        let place = |unit: Unit| units.binary_search(&unit).expect("a rank's weights are used by its units");
        let places: Vec<Vec<usize>> =
            weights.iter().map(|uses| uses.iter().map(|&unit| place(unit)).collect()).collect();
        let bytes: Vec<u64> = units.iter().map(|&unit| self.training.chain().facts(unit).num_bytes).collect();
        let mut memory = self.memory_facts(rank, Purpose::Training);
        memory.gather_buffer_elements.clear();
        memory.gradient_buffer_elements.clear();
        let mut traffic = self.traffic_facts(rank);
        traffic.stages.iter_mut().flat_map(|stage| &mut stage.units).for_each(|unit| unit.num_gathers = 0);
        let (mut fixed_sent_bytes, fixed_peak_bytes) =
            (Traffic::of(&traffic).total_bytes(), RankMemory::of(&memory).peak);
        let mut costs = Vec::with_capacity(weights.len());
        for (weight, places) in weights.iter().zip(&places) {
            let at_rest_bytes =
                KINDS.map(|kind| peak_with(&mut memory, places, kind).saturating_sub(fixed_peak_bytes));
            let sent = KINDS.map(|kind| sent_with(&mut traffic, places, kind));
            let fewest = sent.into_iter().min().unwrap_or(0);
            let sent_bytes = sent.map(|bytes| bytes - fewest);
            fixed_sent_bytes = fixed_sent_bytes.saturating_sub(sent_bytes[UnitSharding::Sharded as usize]);
            costs.push(WeightCosts {
                gathered_bytes: places.iter().map(|&place| bytes[place]).fold(0, u64::saturating_add),
                at_rest_bytes,
                sent_bytes,
                stays_whole: self.grid.pipeline_degree > 1 && self.lone_unit_of(rank) == Some(weight[0]),
                tied: self.tied_elsewhere(weight[0]),
            });
        }
        let gradients = unreduced_gradients(self.training.program(), rank);
        RankCosts {
            weights: costs,
            fixed_peak_bytes,
            fixed_sent_bytes,
            may_all_persist: self.grid.pipeline_degree == 1 || self.run.zero.reduce == ReductionPolicy::Last,
            row: Row {
                training: RowReads::new(self.training.program(), rank),
                evaluation: RowReads::new(self.evaluation.program(), rank),
                gradients: gradients.into_iter().map(place).collect(),
                message_bytes: bytes.iter().map(|&bytes| self.message_bytes(bytes)).collect(),
                bytes,
                places,
                gradient_size_ratio: 4 / self.element_type().num_bytes() as u64,
                num_units: NonZeroU32::MIN.saturating_add(self.prefetch_units()),
                prefetch_units: self.prefetch_units(),
            },
        }
    }

    fn prefetch_units(&self) -> u32 {
        u32::try_from(self.run.zero.prefetch_units).unwrap_or(u32::MAX)
    }

    /// What a rank sends in a gather of a unit with so many bytes: its shard to all other data ranks.
    fn message_bytes(&self, bytes: u64) -> u64 {
        let data_degree = self.grid.data_degree as u64;
        (bytes / data_degree).saturating_mul(data_degree - 1)
    }

    /// The number of the tied weight that a unit uses, if its other use is on another rank.
    fn tied_elsewhere(&self, unit: Unit) -> Option<usize> {
        self.tied_pipeline_ranks()?;
        let pairs = self.training.chain().tied_pairs();
        pairs.iter().position(|&(embedding, head)| embedding == unit || head == unit)
    }
}

/// By their numbers.
const KINDS: [UnitSharding; 3] = [UnitSharding::Sharded, UnitSharding::Persistent, UnitSharding::Whole];

/// The peak if the units at these places are of a kind and all others sharded.
fn peak_with(facts: &mut RankFacts, places: &[usize], kind: UnitSharding) -> u64 {
    let set = |facts: &mut RankFacts, kind| {
        let mut units: Vec<_> = facts.stages.iter_mut().flat_map(|stage| &mut stage.units).collect();
        places.iter().for_each(|&place| units[place].sharding = kind);
    };
    set(facts, kind);
    let peak_bytes = RankMemory::of(facts).peak;
    set(facts, UnitSharding::Sharded);
    peak_bytes
}

/// The same of the bytes sent.
fn sent_with(facts: &mut TrafficFacts, places: &[usize], kind: UnitSharding) -> u64 {
    let set = |facts: &mut TrafficFacts, kind| {
        let mut units: Vec<_> = facts.stages.iter_mut().flat_map(|stage| &mut stage.units).collect();
        places.iter().for_each(|&place| units[place].sharding = kind);
    };
    set(facts, kind);
    let sent_bytes = Traffic::of(facts).total_bytes();
    set(facts, UnitSharding::Sharded);
    sent_bytes
}

/// A rank's rows; its units are counted by their places.
struct Row<'a> {
    training: RowReads<'a>,
    evaluation: RowReads<'a>,
    /// The units whose gradients are reduced after every micro-batch, in the order of the row.
    gradients: Vec<usize>,
    /// `[place]`: of the gathered unit.
    bytes: Vec<u64>,
    /// `[place]`: that a rank sends in a gather.
    message_bytes: Vec<u64>,
    /// `[weight]`: the units that use it.
    places: Vec<Vec<usize>>,
    /// Bytes of a gradient for each byte of its gathered unit.
    gradient_size_ratio: u64,
    /// Gathered units that the rank may hold at once.
    num_units: NonZeroU32,
    prefetch_units: u32,
}

impl Row<'_> {
    /// Marks of weights as marks of units.
    fn of_units(&self, marks: &[bool]) -> Vec<bool> {
        let mut of_units = vec![false; self.bytes.len()];
        for (places, &mark) in self.places.iter().zip(marks) {
            places.iter().for_each(|&place| of_units[place] = mark);
        }
        of_units
    }
}

impl RankRow for Row<'_> {
    fn gathers(&self, is_sharded: &[bool]) -> GatherCosts {
        let of_units = self.of_units(is_sharded);
        let gathers = |reads: &RowReads<'_>| {
            reads.gathers(&of_units, &Residency::Units(self.num_units), self.prefetch_units)
        };
        let RowGathers { buffer_bytes: mut buffers, num_gathers } = gathers(&self.training);
        // Buffers serve both programs.
        let of_evaluation = gathers(&self.evaluation).buffer_bytes;
        buffers.resize(buffers.len().max(of_evaluation.len()), 0);
        buffers.iter_mut().zip(of_evaluation).for_each(|(own, other)| *own = other.max(*own));
        let sent = |place: usize| num_gathers[place].saturating_mul(self.message_bytes[place]);
        let sum = |places: &Vec<usize>| places.iter().map(|&place| sent(place)).fold(0, u64::saturating_add);
        GatherCosts {
            buffer_bytes: buffers.into_iter().fold(0, u64::saturating_add),
            sent_bytes: self.places.iter().map(sum).collect(),
        }
    }

    fn gradient_buffer_bytes(&self, is_reduced_often: &[bool]) -> u64 {
        let of_units = self.of_units(is_reduced_often);
        let gradients = self.gradients.iter().filter(|&&place| of_units[place]);
        let bytes: Vec<u64> = gradients.map(|&place| self.bytes[place]).collect();
        let buffers = gradient_buffer_bytes(&bytes).into_iter().fold(0, u64::saturating_add);
        buffers.saturating_mul(self.gradient_size_ratio)
    }
}
