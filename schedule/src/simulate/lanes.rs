//! The messages under way on each lane of each rank, until they are completed.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::instruction::{Instruction, Lane};

/// A lane of a rank, as a position in a table of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankLane(usize);

/// A message that a rank has issued and not completed.
#[derive(Clone, Copy)]
pub(super) struct UnderWay {
    /// Its position in the row.
    pub(super) index: usize,
    /// How long completing it takes the rank.
    pub(super) landing: u64,
}

/// For each lane the messages that were issued and not completed, in the order of their issue.
pub(super) struct Lanes {
    num_ranks: usize,
    /// `[lane of a rank]`
    under_way: Vec<VecDeque<UnderWay>>,
    /// `[rank]`: the lanes that it has used, ascending.
    used: Vec<Vec<(Lane, RankLane)>>,
}

impl Lanes {
    pub(super) fn new(program: &CheckedProgram) -> Self {
        let num_ranks = program.num_ranks();
        let num_lanes = 2 * num_ranks + 2 * program.chain().num_edges();
        let used = vec![Vec::new(); num_ranks];
        Self { num_ranks, under_way: (0..num_lanes).map(|_| VecDeque::new()).collect(), used }
    }

    /// The lane of a message of a rank; `None` for other instructions. An edge has two: the sender's and the receiver's.
    pub(super) fn lane(&self, rank: usize, instruction: Instruction) -> Option<RankLane> {
        let first_edge = 2 * self.num_ranks;
        Some(RankLane(match instruction {
            Instruction::Send { edge, .. } => first_edge + 2 * edge.index(),
            Instruction::Receive { edge, .. } => first_edge + 2 * edge.index() + 1,
            _ => match instruction.lane() {
                Lane::Gather => 2 * rank,
                Lane::Reduce => 2 * rank + 1,
                Lane::Compute | Lane::Edge(_) => return None,
            },
        }))
    }

    /// A rank has issued a message.
    pub(super) fn issue(&mut self, rank: usize, instruction: Instruction, message: UnderWay) {
        let Some(of_rank) = self.lane(rank, instruction) else { return };
        let under_way = &mut self.under_way[of_rank.0];
        if under_way.capacity() == 0 {
            let used = &mut self.used[rank];
            let lane = instruction.lane();
            used.insert(used.partition_point(|&(other, _)| other < lane), (lane, of_rank));
        }
        under_way.push_back(message);
    }

    /// The lanes that a rank has used, ascending.
    pub(super) fn used(&self, rank: usize, number: usize) -> Option<RankLane> {
        self.used[rank].get(number).map(|&(_, of_rank)| of_rank)
    }

    /// The first message that is not completed.
    pub(super) fn first(&self, lane: RankLane) -> Option<UnderWay> {
        self.under_way[lane.0].front().copied()
    }

    /// That message is completed.
    pub(super) fn land(&mut self, lane: RankLane) {
        self.under_way[lane.0].pop_front();
    }
}
