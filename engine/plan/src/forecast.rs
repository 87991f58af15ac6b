//! What each rank will hold and send: the figures of `plan --json`, by partition's closed formulas over the program's
//! counts.

use pipezero_config::{BackendName, Precision, ReductionOrder, Run};
use pipezero_models::unit::UnitSizes;
use pipezero_partition::{
    ElementBytes, RankFacts, RankMemory, ReductionTerms, Sharding, StageFacts, StageTraffic, Traffic,
    TrafficFacts, UnitFacts, UnitSharding, UnitTraffic,
};
use pipezero_schedule::{Instruction, PipelineRank};
use serde::Serialize;

use super::element_types::ElementTypes;
use super::stages::PlannedStage;
use super::tokens_read::TokensRead;
use super::{Plan, PlannedPart, PlannedUnit};

/// What one rank will hold and send.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankForecast {
    /// The world rank.
    pub rank: usize,
    /// Its place along the pipeline axis.
    pub pipeline_rank: usize,
    /// Its place along the data axis.
    pub data_rank: usize,
    /// Its stages: several where the schedule gives a rank more than one.
    pub stages: Vec<usize>,
    /// Names of its layers.
    pub layers: Vec<String>,
    /// Its units, each as the names of its layers.
    pub units: Vec<Vec<String>>,
    /// Parameters of its layers, before sharding.
    pub parameters: u64,
    /// What of them stays gathered all step.
    pub persistent: Persistent,
    /// What of them is whole, as under ZeRO-1.
    pub whole: Persistent,
    /// Gathered units that it holds at once, at most; 0 where weights are whole.
    pub resident_units: usize,
    /// Activations that it holds at once, at most, each of one stage and micro-batch. Several stages
    /// need not peak at the same time, so slots are allocated for slightly more than this number.
    pub in_flight: usize,
    /// Bytes by category.
    pub memory: RankMemory,
    /// Calls and bytes of one step, by kind.
    pub traffic: Traffic,
}

/// What of a rank's weights stays gathered all step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Persistent {
    /// Parameters; of one in slices each counts.
    pub parameters: usize,
    /// Their elements.
    pub elements: u64,
}

impl Plan {
    /// The forecast of every rank, by world rank.
    pub fn forecast(&self) -> Vec<RankForecast> {
        let grid = self.grid();
        // All data ranks of a pipeline rank are alike.
        let by_pipeline_rank: Vec<RankForecast> =
            self.training.ranks().map(|rank| self.forecast_of(rank)).collect();
        (0..grid.world_size())
            .map(|rank| RankForecast {
                rank,
                data_rank: grid.data_rank(rank),
                ..by_pipeline_rank[grid.pipeline_rank(rank)].clone()
            })
            .collect()
    }

    /// The pipeline rank that needs most memory, the first of equals, and its peak bytes.
    pub fn fullest_rank(&self) -> (usize, u64) {
        let peaks = self.training.ranks().map(|rank| (rank.index(), self.peak_of(rank)));
        let fullest = peaks.max_by_key(|&(index, peak)| (peak, std::cmp::Reverse(index)));
        fullest.expect("a grid has at least one rank")
    }

    /// Peak bytes of a pipeline rank.
    pub(super) fn peak_of(&self, rank: PipelineRank) -> u64 {
        RankMemory::of(&self.memory_facts(rank)).peak
    }

    /// What a pipeline rank sends in a training step.
    pub(super) fn traffic_of(&self, rank: PipelineRank) -> Traffic {
        Traffic::of(&self.traffic_facts(rank))
    }

    /// Bytes that each rank allocates, by world rank.
    pub(super) fn allocated_bytes(&self) -> Vec<u64> {
        self.memory().into_iter().map(|memory| memory.peak).collect()
    }

    /// What each rank allocates, by world rank.
    pub fn memory(&self) -> Vec<RankMemory> {
        let of_pipeline_rank = |rank| RankMemory::of(&self.memory_facts(rank));
        self.training.ranks().flat_map(|rank| vec![of_pipeline_rank(rank); self.grid.data_degree]).collect()
    }

    /// The forecast of a pipeline rank's first data rank.
    fn forecast_of(&self, rank: PipelineRank) -> RankForecast {
        let names = |unit: &PlannedUnit| {
            unit.layers.clone().map(|layer| self.graph.layer(layer).name.clone()).collect::<Vec<_>>()
        };
        let units: Vec<Vec<String>> = self.units_of(rank).map(|(_, unit)| names(unit)).collect();
        let of_kind = |kind: UnitSharding| {
            let entries = self.weights_held(rank).flat_map(|(_, unit)| unit.entries_of_kind(kind));
            entries.fold(Persistent::default(), |sum, entry| Persistent {
                parameters: sum.parameters + 1,
                elements: sum.elements + entry.range.len() as u64,
            })
        };
        RankForecast {
            rank: rank.index() * self.grid.data_degree,
            pipeline_rank: rank.index(),
            data_rank: 0,
            stages: self.training.placement().stages(rank).map(|stage| stage.index()).collect(),
            layers: units.concat(),
            units,
            parameters: self.weights_held(rank).map(|(_, unit)| unit.unit.num_parameters() as u64).sum(),
            persistent: of_kind(UnitSharding::Persistent),
            whole: of_kind(UnitSharding::Whole),
            resident_units: self.gather_buffers(rank).len(),
            in_flight: self.training.high_water(rank).activations,
            memory: RankMemory::of(&self.memory_facts(rank)),
            traffic: self.traffic_of(rank),
        }
    }

    pub(super) fn memory_facts(&self, rank: PipelineRank) -> RankFacts {
        let stage_facts = |stage: PlannedStage<'_>| StageFacts {
            num_activation_slots: self.num_slots(stage.stage) as u64,
            num_weight_input_buffers: self.num_weight_input_buffers(stage.stage) as u64,
            input_cut_elements: stage.input_cut as u64,
            num_gradient_send_buffers: self.num_gradient_send_buffers(stage.stage) as u64,
            output_cut_elements: stage.output_cut as u64,
            num_gradient_receive_buffers: self.num_gradient_receive_buffers(stage.stage) as u64,
            local_output_elements: stage.local_output as u64,
            units: stage.units.iter().flat_map(|(_, unit)| memory_facts_of(unit, &unit.sizes)).collect(),
        };
        let gather_buffers = self.gather_buffers(rank);
        let gradient_buffers = self.gradient_buffers(rank);
        let reads = self.tokens_read(rank);
        RankFacts {
            purpose: self.run.purpose,
            sharding: sharding(&self.run),
            element_bytes: element_bytes(&self.run.precision),
            num_optimizer_states: self.run.optimizer.num_states() as u64,
            gather_buffer_elements: gather_buffers.iter().flatten().map(|&len| len as u64).collect(),
            gradient_buffer_elements: gradient_buffers.iter().flatten().map(|&len| len as u64).collect(),
            num_term_elements: self.num_term_elements(rank),
            copies_checkpoints: self.run.checkpoint.is_copied(),
            num_tokens: num_of_step(&self.run, reads.num_tokens()),
            num_document_starts: num_of_step(&self.run, reads.num_document_starts()),
            num_encoder_words: num_of_step(&self.run, reads.num_encoder_words()),
            num_loss_inputs: num_loss_inputs_of_step(&self.run, reads),
            stages: self.stages_of(rank).into_iter().map(stage_facts).collect(),
        }
    }

    /// Elements of the terms that a rank receives over NCCL to add them by itself.
    fn num_term_elements(&self, rank: PipelineRank) -> u64 {
        let comm = &self.run.comm;
        if comm.backend != BackendName::Nccl || comm.reduction != ReductionOrder::Ordered {
            return 0;
        }
        let ends = self.tied_pipeline_ranks();
        let is_tied = ends.is_some_and(|(lower, upper)| [lower, upper].contains(&rank));
        let lanes = [Some(self.grid.data_degree), is_tied.then_some(2)];
        let terms = |num_members| ReductionTerms::of(num_members, self.largest_message()).num_elements();
        lanes.into_iter().flatten().map(terms).sum()
    }

    pub(super) fn traffic_facts(&self, rank: PipelineRank) -> TrafficFacts {
        let mut num_gathers = vec![0; self.units.len()];
        for instruction in self.training.row(rank) {
            if let Instruction::Unshard { unit } = instruction {
                num_gathers[unit.index()] += 1;
            }
        }
        let stage_facts = |stage: PlannedStage<'_>| StageTraffic {
            input_gradient_elements: if self.num_gradient_send_buffers(stage.stage) > 0 {
                stage.input_cut as u64
            } else {
                0
            },
            output_cut_elements: stage.output_cut as u64,
            units: stage
                .units
                .iter()
                .flat_map(|(id, unit)| {
                    let num_gathers = num_gathers[id.index()];
                    unit.parts.iter().map(move |part| UnitTraffic {
                        num_elements: part.num_elements as u64,
                        num_gathers,
                        tying: unit.tying,
                        sharding: part.sharding,
                        is_frozen: part.is_frozen,
                    })
                })
                .collect(),
        };
        TrafficFacts {
            sharding: sharding(&self.run),
            element_bytes: element_bytes(&self.run.precision),
            world_size: self.grid.world_size() as u64,
            num_micro_batches: self.run.batch.num_micro_batches as u64,
            num_loss_parts: self.loss_parts().len() as u64,
            stages: self.stages_of(rank).into_iter().map(stage_facts).collect(),
        }
    }
}

/// A unit, given what it needs for a micro-batch: what it holds of each part, and with the first all else.
pub(super) fn memory_facts_of(unit: &PlannedUnit, sizes: &UnitSizes) -> Vec<UnitFacts> {
    let of_part = |(index, part): (usize, &PlannedPart)| {
        let sizes = if index == 0 { *sizes } else { UnitSizes::default() };
        UnitFacts {
            num_elements: part.num_elements as u64,
            saved_elements: sizes.saved as u64,
            recompute_elements: sizes.recompute as u64,
            weight_input_elements: sizes.weight_inputs as u64,
            workspace_elements: sizes.workspace as u64,
            allocated_elements: sizes.allocated as u64,
            widest_activation_elements: sizes.gradient as u64,
            tying: unit.tying,
            sharding: part.sharding,
            is_frozen: part.is_frozen,
        }
    };
    unit.parts.iter().enumerate().map(of_part).collect()
}

pub(super) fn sharding(run: &Run) -> Sharding {
    Sharding { level: run.zero.level, reduce: run.zero.reduce, data_degree: run.parallel.data as u64 }
}

/// So many of each micro-batch, in a step on one data rank.
pub(super) fn num_of_step(run: &Run, of_each: usize) -> u64 {
    (run.batch.num_micro_batches as u64).saturating_mul(of_each as u64)
}

/// Values that a loss reads in a step on one data rank, and those of a micro-batch where the source writes them.
pub(super) fn num_loss_inputs_of_step(run: &Run, reads: TokensRead) -> u64 {
    let of_micro_batches = num_of_step(run, reads.num_loss_inputs());
    of_micro_batches.saturating_add(reads.num_loss_inputs() as u64)
}

/// What the precision decides of memory and traffic.
pub(super) fn element_bytes(precision: &Precision) -> ElementBytes {
    ElementTypes::of(precision).bytes()
}
