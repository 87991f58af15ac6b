//! Who takes part in an instruction: a message and a meeting have an instruction on every rank that they need.

use pipezero_schedule::{CheckedProgram, Instruction, PipelineRank};

use super::fault::Place;
use crate::plan::grid::Grid;

/// An instruction of a world rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The world rank.
    pub(super) rank: usize,
    /// Whose row it runs.
    pub(super) pipeline_rank: PipelineRank,
    /// The position in that row.
    pub(super) index: usize,
}

impl Site {
    pub(super) fn new(grid: Grid, rank: usize, index: usize) -> Self {
        Self { rank, pipeline_rank: PipelineRank(grid.pipeline_rank(rank) as u32), index }
    }

    pub(super) fn instruction(self, program: &CheckedProgram) -> Instruction {
        program.row(self.pipeline_rank)[self.index]
    }

    pub(super) fn place(self, program: &CheckedProgram) -> Place {
        Place { rank: self.rank, index: self.index, instruction: self.instruction(program) }
    }

    /// Another position of the same row.
    pub(super) fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }
}

/// The instructions that must have been started before this one can be done, itself among them: both ends of a transfer,
/// a collective on all data ranks, a norm on all ranks.
pub(super) fn members(program: &CheckedProgram, grid: Grid, site: Site) -> Vec<Site> {
    let data_rank = grid.data_rank(site.rank);
    let on = |rank: PipelineRank, index: usize| Site {
        rank: grid.rank(rank.index(), data_rank),
        pipeline_rank: rank,
        index,
    };
    let position = |rank: PipelineRank, instruction: Instruction| {
        let found = program.row(rank).iter().rposition(|&other| other == instruction);
        found.expect("a checked program has a meeting on all of its ranks")
    };
    match site.instruction(program) {
        Instruction::Send { .. } | Instruction::Receive { .. } => {
            let peer = program.peer(site.pipeline_rank.at(site.index));
            let peer = peer.expect("a checked transfer has two ends");
            vec![site, on(peer.rank, peer.index)]
        }
        Instruction::Unshard { .. }
        | Instruction::Reduce { .. }
        | Instruction::ReduceLast { .. }
        | Instruction::AllReduce { .. }
        | Instruction::GatherAfterStep { .. } => {
            grid.data_group(site.rank).map(|rank| Site { rank, ..site }).collect()
        }
        Instruction::AddTied { embedding, head } => {
            let mut ranks = [embedding, head].map(|unit| program.chain().rank(unit)).to_vec();
            ranks.dedup();
            let instruction = site.instruction(program);
            ranks.into_iter().map(|rank| on(rank, position(rank, instruction))).collect()
        }
        Instruction::GradientNorm => {
            let at = |rank| {
                let pipeline_rank = PipelineRank(grid.pipeline_rank(rank) as u32);
                Site { rank, pipeline_rank, index: position(pipeline_rank, Instruction::GradientNorm) }
            };
            (0..grid.world_size()).map(at).collect()
        }
        Instruction::Forward { .. }
        | Instruction::Backward { .. }
        | Instruction::BackwardInput { .. }
        | Instruction::BackwardWeight { .. }
        | Instruction::Recompute { .. }
        | Instruction::Reshard { .. }
        | Instruction::OptimizerStep { .. } => vec![site],
    }
}
