//! What one rank allocates, in elements: the plan's side of the memory account.

use pipezero_schedule::{CheckedProgram, Edge, Instruction, PipelineRank, Stage, Unit, protocol};

use super::Plan;
use super::stages::PlannedStage;
use super::tokens_read::TokensRead;
use super::unit::{MAX_GATHERED_PARTS, PlannedPart, Reduced};
use pipezero_config::Purpose;
use pipezero_partition::Tying;

/// Parts of a unit that are reduced after every micro-batch, at most: its first ones.
pub const MAX_REDUCED_PARTS: usize = 2;

/// Buffers of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSizes {
    /// Buffers of each of its stages.
    pub stages: Vec<StageSizes>,
    /// What the rank reads of each micro-batch.
    pub tokens: TokensRead,
    /// Elements of each of the two activation streams: the widest activation.
    pub stream_len: usize,
    /// Elements of the gradient stream, f32; 0 in inference.
    pub gradient_len: usize,
    /// Elements of scratch, f32.
    pub workspace_len: usize,
    /// Elements that a layer allocates itself, f32.
    pub allocated_len: usize,
    /// Elements of the buffer for recomputed activations.
    pub recompute_len: usize,
    /// `[buffer][place]`: elements of the buffers for gathered units, the largest first; a place for each part that is gathered, the larger one first.
    pub gather_buffers: Vec<[usize; MAX_GATHERED_PARTS]>,
    /// Elements of each buffer for an unsharded gradient, by part, f32; none in inference, and where gradients accumulate unsharded.
    pub gradient_buffers: Vec<[usize; MAX_REDUCED_PARTS]>,
    /// Elements of the copy out of which checkpoints are written, f32; 0 without one.
    pub checkpoint_elements: usize,
    /// Buffers for what is received over an edge, and for gradients sent over one.
    pub edge_buffers: Vec<EdgeBuffers>,
}

/// The buffers of one end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeBuffers {
    /// The edge.
    pub edge: Edge,
    /// Number of buffers.
    pub num_buffers: usize,
    /// Elements of a message.
    pub len: usize,
}

/// The activation slots of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSizes {
    pub stage: Stage,
    pub num_slots: usize,
    pub saved: Vec<(Unit, usize)>,
    /// Micro-batches that wait for their weight gradient at once.
    pub num_weight_input_buffers: usize,
    pub weight_inputs: Vec<(Unit, usize)>,
    /// Elements that the stage sends; 0 in the last one.
    pub output_len: usize,
}

impl Plan {
    /// What a rank allocates beside the stores of its units.
    pub fn sizes(&self, rank: PipelineRank) -> RankSizes {
        let units: Vec<_> = self.units_of(rank).collect();
        let widest =
            |f: fn(&super::PlannedUnit) -> usize| units.iter().map(|(_, unit)| f(unit)).max().unwrap_or(0);
        let trains = self.run.trains();
        let is_copied = trains && self.run.checkpoint.is_copied();
        // A tied weight is written by the rank of its first use.
        let written = units.iter().filter(|(_, unit)| is_copied && unit.tying != Tying::Head);
        let num_kinds = |part: &PlannedPart| match part.is_frozen {
            true => 1,
            false => 1 + self.run.optimizer.num_states(),
        };
        let parts = written.flat_map(|(_, unit)| &unit.parts);
        let checkpoint_elements = parts.map(|part| num_kinds(part) * part.layout.shard_len()).sum();
        RankSizes {
            stages: self.stage_sizes(rank),
            tokens: self.tokens_read(rank),
            stream_len: widest(|unit| unit.sizes.gradient),
            gradient_len: if trains { widest(|unit| unit.sizes.gradient) } else { 0 },
            workspace_len: widest(|unit| unit.sizes.workspace),
            allocated_len: widest(|unit| unit.sizes.allocated),
            recompute_len: widest(|unit| unit.sizes.recompute),
            gather_buffers: self.gather_buffers(rank),
            gradient_buffers: self.gradient_buffers(rank),
            checkpoint_elements,
            edge_buffers: self.edge_buffers(rank),
        }
    }

    /// Elements of each buffer for a gathered unit, as many of each of its parts as the largest of those that lie there: enough for evaluation
    /// and, when training, the step.
    pub(super) fn gather_buffers(&self, rank: PipelineRank) -> Vec<[usize; MAX_GATHERED_PARTS]> {
        let programs: &[&CheckedProgram] = match self.run.purpose {
            Purpose::Training => &[&self.training, &self.evaluation],
            Purpose::Inference => &[&self.evaluation],
        };
        let num_buffers = programs.iter().map(|program| program.gather_buffers(rank).len()).max();
        let mut buffers = vec![[0; MAX_GATHERED_PARTS]; num_buffers.unwrap_or(0)];
        for program in programs {
            let row = program.row(rank);
            for (index, buffer) in program.filled_gather_buffers(rank) {
                let Instruction::Unshard { unit } = row[index] else { continue };
                let unit = self.unit(unit);
                for (len, part) in buffers[buffer].iter_mut().zip(unit.gathered_parts()) {
                    *len = (*len).max(unit.parts[part].layout.padded_len());
                }
            }
        }
        buffers
    }

    /// Elements of each buffer for an unsharded gradient: as many of each part as the largest of those that lie there.
    pub(super) fn gradient_buffers(&self, rank: PipelineRank) -> Vec<[usize; MAX_REDUCED_PARTS]> {
        if !self.run.trains() {
            return Vec::new();
        }
        let mut buffers = vec![[0; MAX_REDUCED_PARTS]; self.training.gradient_buffers(rank).len()];
        let row = self.training.row(rank);
        for (index, buffer) in self.training.filled_gradient_buffers(rank) {
            if let Some(unit) = row[index].unit() {
                for (len, part) in buffers[buffer].iter_mut().zip(&self.unit(unit).parts) {
                    if part.reduced(&self.run.zero) == Reduced::Every {
                        *len = (*len).max(part.layout.padded_len());
                    }
                }
            }
        }
        buffers
    }

    /// Activation slots of a stage: as many as training has in flight, or as an evaluation needs.
    pub(super) fn num_slots(&self, stage: Stage) -> usize {
        let evaluation = self.evaluation.num_slots(stage);
        match self.run.purpose {
            Purpose::Training => evaluation.max(self.training.num_slots(stage)),
            Purpose::Inference => evaluation,
        }
    }

    /// Buffers of weight-gradient inputs of a stage: inference has no gradients.
    pub(super) fn num_weight_input_buffers(&self, stage: Stage) -> usize {
        match self.run.purpose {
            Purpose::Training => self.training.num_weight_input_buffers(stage),
            Purpose::Inference => 0,
        }
    }

    fn stage_sizes(&self, rank: PipelineRank) -> Vec<StageSizes> {
        let sizes = |stage: PlannedStage<'_>| StageSizes {
            stage: stage.stage,
            num_slots: self.num_slots(stage.stage),
            saved: stage.units.iter().map(|(id, unit)| (*id, unit.sizes.saved)).collect(),
            num_weight_input_buffers: self.num_weight_input_buffers(stage.stage),
            weight_inputs: stage.units.iter().map(|(id, unit)| (*id, unit.sizes.weight_inputs)).collect(),
            output_len: stage.output_cut + stage.local_output,
        };
        self.stages_of(rank).into_iter().map(sizes).collect()
    }

    fn edge_buffers(&self, rank: PipelineRank) -> Vec<EdgeBuffers> {
        let training = self.run.trains();
        let mut buffers = Vec::new();
        let mut add = |edge: Edge, num_buffers: usize, len: usize| {
            if num_buffers > 0 {
                buffers.push(EdgeBuffers { edge, num_buffers, len });
            }
        };
        for PlannedStage { stage, input_cut, output_cut, .. } in self.stages_of(rank) {
            let before = stage.0.checked_sub(1).map(Stage);
            if let Some(before) = before.filter(|&before| self.crosses_ranks(Edge::Up(before))) {
                add(Edge::Up(before), protocol::RECEIVE_BUFFERS, input_cut);
                if training {
                    add(Edge::Down(before), self.num_gradient_send_buffers(stage), input_cut);
                }
            }
            if training {
                add(Edge::Down(stage), self.num_gradient_receive_buffers(stage), output_cut);
            }
        }
        buffers
    }
}
