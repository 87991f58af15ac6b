//! The norm and the tied additions: which ranks have joined, and which go on together.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::grid::Grid;
use crate::instruction::Instruction;

/// The number of the norm; those of tied additions follow, one for each data rank.
const NORM: usize = 0;

pub(super) struct Synchronizations {
    /// `[synchronization]`: the ranks.
    members: Vec<Vec<usize>>,
    /// `[synchronization]`: members that have not joined.
    num_missing: Vec<usize>,
}

impl Synchronizations {
    pub(super) fn new(grid: Grid<'_>) -> Self {
        let mut members = vec![(0..grid.world_size()).collect::<Vec<_>>()];
        let chain = grid.program.chain();
        if let Some((embedding, head)) = chain.tied() {
            let ranks = BTreeSet::from([embedding, head].map(|unit| chain.rank(unit)));
            members.extend((0..grid.data_degree).map(|data_rank| {
                ranks.iter().map(|&pipeline_rank| grid.rank(pipeline_rank, data_rank)).collect::<Vec<_>>()
            }));
        }
        let num_missing = members.iter().map(Vec::len).collect();
        Self { members, num_missing }
    }

    /// The synchronization that a rank joins.
    pub(super) fn of(&self, data_rank: usize, instruction: Instruction) -> usize {
        if instruction == Instruction::GradientNorm { NORM } else { NORM + 1 + data_rank }
    }

    /// The ranks of a synchronization.
    pub(super) fn members(&self, synchronization: usize) -> &[usize] {
        &self.members[synchronization]
    }

    /// A rank has joined; whether it was the last.
    pub(super) fn join(&mut self, synchronization: usize) -> bool {
        self.num_missing[synchronization] -= 1;
        self.num_missing[synchronization] == 0
    }
}
