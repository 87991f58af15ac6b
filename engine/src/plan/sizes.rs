//! What one rank allocates, in elements: the plan's side of the memory account.

use pipezero_schedule::{Edge, PipelineRank, Stage, Unit, protocol};

use super::Plan;
use crate::config::ZeroLevel;
use crate::shard::Purpose;

/// Receive buffers of an edge, and gradient send buffers of an edge: one in use, one in flight.
pub(crate) const BUFFERS_PER_EDGE: usize = protocol::RECEIVE_BUFFERS;
const _: () = assert!(protocol::RECEIVE_BUFFERS == protocol::GRADIENT_SEND_BUFFERS);

/// Buffers of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankSizes {
    pub(crate) stages: Vec<StageSizes>,
    /// Elements of each of the two activation streams: the widest activation.
    pub(crate) stream_len: usize,
    /// Elements of the gradient stream; 0 in inference.
    pub(crate) gradient_len: usize,
    pub(crate) workspace_len: usize,
    pub(crate) num_gather_buffers: usize,
    pub(crate) gather_buffer_len: usize,
    pub(crate) num_gradient_buffers: usize,
    pub(crate) gradient_buffer_len: usize,
    /// Edges that need buffers here, with the elements of a message: those received from, and gradients sent.
    pub(crate) edge_buffers: Vec<(Edge, usize)>,
}

impl RankSizes {
    /// Elements of all buffers.
    pub(crate) fn num_elements(&self) -> usize {
        let slots = self.stages.iter().map(|stage| {
            let saved: usize = stage.saved.iter().map(|&(_, len)| len).sum();
            stage.num_slots * (saved + stage.output_len)
        });
        let edges = self.edge_buffers.iter().map(|&(_, len)| BUFFERS_PER_EDGE * len);
        slots.sum::<usize>()
            + edges.sum::<usize>()
            + 2 * self.stream_len
            + self.gradient_len
            + self.workspace_len
            + self.num_gather_buffers * self.gather_buffer_len
            + self.num_gradient_buffers * self.gradient_buffer_len
    }
}

/// The activation slots of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageSizes {
    pub(crate) stage: Stage,
    pub(crate) num_slots: usize,
    pub(crate) saved: Vec<(Unit, usize)>,
    /// Elements that the stage sends; 0 in the last one.
    pub(crate) output_len: usize,
}

impl Plan {
    /// What a rank allocates beside the stores of its units.
    pub(crate) fn sizes(&self, rank: PipelineRank, purpose: Purpose) -> RankSizes {
        let units: Vec<_> = self.units_of(rank).collect();
        let widest =
            |f: fn(&super::PlannedUnit) -> usize| units.iter().map(|(_, unit)| f(unit)).max().unwrap_or(0);
        let largest_unit = widest(|unit| unit.layout.padded_len());
        let training = purpose == Purpose::Training;
        let num_gather_buffers = match purpose {
            _ if self.run().zero.level != ZeroLevel::Zero3 => 0,
            Purpose::Training => self.num_gather_buffers(rank),
            Purpose::Inference => self.evaluation.high_water(rank).gathered_units,
        };
        let num_gradient_buffers =
            if training && self.reduces_every_micro_batch() { protocol::GRADIENT_BUFFERS } else { 0 };
        RankSizes {
            stages: self.stage_sizes(rank, purpose),
            stream_len: widest(|unit| unit.sizes.gradient),
            gradient_len: if training { widest(|unit| unit.sizes.gradient) } else { 0 },
            workspace_len: widest(|unit| unit.sizes.workspace),
            num_gather_buffers,
            gather_buffer_len: largest_unit,
            num_gradient_buffers,
            gradient_buffer_len: largest_unit,
            edge_buffers: self.edge_buffers(rank, purpose),
        }
    }

    /// Gathered copies that a rank holds at most, in training and evaluation.
    pub(super) fn num_gather_buffers(&self, rank: PipelineRank) -> usize {
        let programs = [&self.training, &self.evaluation];
        programs.into_iter().map(|program| program.high_water(rank).gathered_units).max().unwrap_or(0)
    }

    /// Activation slots of a stage: as many as training has in flight, or as an evaluation needs.
    pub(super) fn num_slots(&self, stage: Stage, purpose: Purpose) -> usize {
        let evaluation = self.evaluation.num_slots(stage);
        match purpose {
            Purpose::Training => evaluation.max(self.training.num_slots(stage)),
            Purpose::Inference => evaluation,
        }
    }

    fn stage_sizes(&self, rank: PipelineRank, purpose: Purpose) -> Vec<StageSizes> {
        let mut stages: Vec<StageSizes> = Vec::new();
        for (id, unit) in self.units_of(rank) {
            if stages.last().is_none_or(|last| last.stage != unit.stage) {
                let num_slots = self.num_slots(unit.stage, purpose);
                stages.push(StageSizes { stage: unit.stage, num_slots, saved: Vec::new(), output_len: 0 });
            }
            let stage = stages.last_mut().expect("just pushed");
            stage.saved.push((id, unit.sizes.saved));
            if self.sends_output(id) {
                stage.output_len = unit.sizes.output;
            }
        }
        stages
    }

    fn edge_buffers(&self, rank: PipelineRank, purpose: Purpose) -> Vec<(Edge, usize)> {
        let training = purpose == Purpose::Training;
        let mut buffers = Vec::new();
        for (id, unit) in self.units_of(rank) {
            if self.receives_input(id) {
                let before = Stage(unit.stage.0 - 1);
                buffers.push((Edge::Up(before), unit.sizes.input));
                if training {
                    buffers.push((Edge::Down(before), unit.sizes.input));
                }
            }
            if training && self.sends_output(id) {
                buffers.push((Edge::Down(unit.stage), unit.sizes.output));
            }
        }
        buffers
    }
}
