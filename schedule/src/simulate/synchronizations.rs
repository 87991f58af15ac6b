//! The norm and the tied additions: which ranks have joined, and which go on together.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::Unit;
use crate::instruction::Instruction;

/// The number of the norm; those of tied additions follow, for each pair of tied units one for each data rank.
const NORM: usize = 0;

pub(super) struct Synchronizations {
    data_degree: usize,
    /// The embeddings of tied pairs that are trained.
    tied: Vec<Unit>,
    /// `[synchronization]`: the ranks.
    members: Vec<Vec<usize>>,
    /// `[synchronization]`: members that have not joined.
    num_missing: Vec<usize>,
}

impl Synchronizations {
    /// Of ranks that are numbered pipeline rank by pipeline rank, with the data ranks of each next to each other.
    pub(super) fn new(program: &CheckedProgram, data_degree: usize) -> Self {
        let mut members = vec![(0..program.num_ranks() * data_degree).collect::<Vec<_>>()];
        let chain = program.chain();
        for (embedding, head) in chain.summed_pairs() {
            let ranks = BTreeSet::from([embedding, head].map(|unit| chain.rank(unit)));
            members.extend((0..data_degree).map(|data_rank| {
                ranks.iter().map(|of| of.index() * data_degree + data_rank).collect::<Vec<_>>()
            }));
        }
        let num_missing = members.iter().map(Vec::len).collect();
        let tied = chain.summed_pairs().map(|(embedding, _)| embedding).collect();
        Self { data_degree, tied, members, num_missing }
    }

    /// The synchronization that a rank joins.
    pub(super) fn of(&self, data_rank: usize, instruction: Instruction) -> usize {
        let Instruction::AddTied { embedding, .. } = instruction else { return NORM };
        let pair = self.tied.partition_point(|&before| before < embedding);
        NORM + 1 + pair * self.data_degree + data_rank
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
