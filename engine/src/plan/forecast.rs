//! What each rank will hold and send: the figures of `plan --json`, by partition's closed formulas over the program's
//! counts.

use pipezero_partition::{
    MemoryBytes, RankFacts, Sharding, Traffic, TrafficFacts, UnitFacts, UnitTraffic, Volume,
};
use pipezero_schedule::{Instruction, PipelineRank};
use serde::Serialize;

use super::Plan;
use crate::memory::RankMemory;
use crate::shard::Purpose;

/// What one rank will hold and send.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankForecast {
    /// The world rank.
    pub rank: usize,
    /// Its place along the pipeline axis.
    pub pipeline_rank: usize,
    /// Its place along the data axis.
    pub data_rank: usize,
    /// Names of its layers.
    pub layers: Vec<String>,
    /// Its units, each as the names of its layers.
    pub units: Vec<Vec<String>>,
    /// Parameters of its layers, before sharding.
    pub parameters: u64,
    /// Micro-batches whose activations it holds at most.
    pub in_flight: usize,
    /// Bytes by category.
    pub memory: RankMemory,
    /// Calls and bytes of one step, by kind.
    pub traffic: crate::comm::Traffic,
}

impl Plan {
    /// The forecast of every rank, by world rank.
    pub fn forecast(&self) -> Vec<RankForecast> {
        let grid = self.grid();
        let by_pipeline_rank: Vec<_> = (0..grid.pipeline_degree)
            .map(|rank| {
                let rank = PipelineRank(rank as u32);
                (MemoryBytes::of(&self.memory_facts(rank)), Traffic::of(&self.traffic_facts(rank)))
            })
            .collect();
        (0..grid.world_size())
            .map(|rank| {
                let pipeline_rank = grid.pipeline_rank(rank);
                let (memory, traffic) = &by_pipeline_rank[pipeline_rank];
                self.rank_forecast(rank, memory, traffic)
            })
            .collect()
    }

    /// Bytes that all ranks allocate together.
    pub(crate) fn allocated_bytes(&self, purpose: Purpose) -> u64 {
        let ranks = self.forecast();
        let bytes = ranks.iter().map(|rank| match purpose {
            Purpose::Training => rank.memory.peak,
            Purpose::Inference => {
                let sizes = self.sizes(PipelineRank(rank.pipeline_rank as u32), purpose);
                rank.memory.parameters + 4 * sizes.num_elements() as u64
            }
        });
        bytes.sum()
    }

    fn rank_forecast(&self, rank: usize, memory: &MemoryBytes, traffic: &Traffic) -> RankForecast {
        let pipeline_rank = self.grid().pipeline_rank(rank);
        let units: Vec<Vec<String>> = self
            .units_of(PipelineRank(pipeline_rank as u32))
            .map(|(_, unit)| unit.layers.clone().map(|layer| self.graph.layer(layer).name.clone()).collect())
            .collect();
        RankForecast {
            rank,
            pipeline_rank,
            data_rank: self.grid().data_rank(rank),
            layers: units.concat(),
            units,
            parameters: self
                .units_of(PipelineRank(pipeline_rank as u32))
                // A tied weight that is used twice here is held once.
                .filter(|&(id, _)| self.weights_owner(id) == id)
                .map(|(_, unit)| unit.unit.num_parameters() as u64)
                .sum(),
            in_flight: self.in_flight(PipelineRank(pipeline_rank as u32)),
            memory: memory_of(memory),
            traffic: traffic_of(traffic),
        }
    }

    fn in_flight(&self, rank: PipelineRank) -> usize {
        let mut stages: Vec<_> = self.units_of(rank).map(|(_, unit)| unit.stage).collect();
        stages.dedup();
        stages.into_iter().map(|stage| self.training.num_slots(stage)).sum()
    }

    fn sharding(&self) -> Sharding {
        let zero = &self.run.zero;
        Sharding { level: zero.level, reduce: zero.reduce, data_degree: self.grid.data_degree as u64 }
    }

    /// Elements received from the stage before and sent to the stage after, for one micro-batch.
    fn cuts(&self, rank: PipelineRank) -> (u64, u64) {
        let sum = |values: Vec<usize>| values.into_iter().sum::<usize>() as u64;
        let units: Vec<_> = self.units_of(rank).collect();
        let inputs =
            units.iter().filter(|(id, _)| self.receives_input(*id)).map(|(_, unit)| unit.sizes.input);
        let outputs =
            units.iter().filter(|(id, _)| self.sends_output(*id)).map(|(_, unit)| unit.sizes.output);
        (sum(inputs.collect()), sum(outputs.collect()))
    }

    fn memory_facts(&self, rank: PipelineRank) -> RankFacts {
        let (input_cut_elements, output_cut_elements) = self.cuts(rank);
        let stages = self.units_of(rank).map(|(_, unit)| unit.stage);
        let num_slots = stages.map(|stage| self.num_slots(stage, Purpose::Training)).max().unwrap_or(0);
        RankFacts {
            sharding: self.sharding(),
            num_optimizer_states: self.optimizer.num_states() as u64,
            num_gather_buffers: self.num_gather_buffers(rank) as u64,
            num_activation_slots: num_slots as u64,
            input_cut_elements,
            output_cut_elements,
            units: self
                .units_of(rank)
                .map(|(_, unit)| UnitFacts {
                    num_elements: unit.unit.num_elements() as u64,
                    saved_elements: unit.sizes.saved as u64,
                    workspace_elements: unit.sizes.workspace as u64,
                    widest_activation_elements: unit.sizes.gradient as u64,
                    tying: unit.tying,
                })
                .collect(),
        }
    }

    fn traffic_facts(&self, rank: PipelineRank) -> TrafficFacts {
        let (input_cut_elements, output_cut_elements) = self.cuts(rank);
        let row = self.training.row(rank);
        TrafficFacts {
            sharding: self.sharding(),
            world_size: self.grid.world_size() as u64,
            num_micro_batches: self.run.batch.num_micro_batches as u64,
            input_cut_elements,
            output_cut_elements,
            units: self
                .units_of(rank)
                .map(|(id, unit)| UnitTraffic {
                    num_elements: unit.unit.num_elements() as u64,
                    num_gathers: row.iter().filter(|&&step| step == Instruction::Unshard { unit: id }).count()
                        as u64,
                    tying: unit.tying,
                })
                .collect(),
        }
    }
}

fn memory_of(bytes: &MemoryBytes) -> RankMemory {
    let &MemoryBytes { parameters, gathered, gradients, optimizer, activations, communication, peak } = bytes;
    RankMemory { parameters, gathered, gradients, optimizer, activations, communication, peak }
}

fn traffic_of(traffic: &Traffic) -> crate::comm::Traffic {
    let count = |volume: Volume| crate::comm::TrafficCount { count: volume.count, bytes: volume.bytes };
    crate::comm::Traffic {
        all_gather: count(traffic.all_gather),
        reduce_scatter: count(traffic.reduce_scatter),
        all_reduce: count(traffic.all_reduce),
        send: count(traffic.send),
    }
}
