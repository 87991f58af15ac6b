//! The messages of each lane of each rank, and which of them have been taken in.

use alloc::vec;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::instruction::{Instruction, Lane};

/// A lane of a rank, as a place in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(usize);

impl Slot {
    /// The lane of a message. An edge has two: the sender's and the receiver's.
    pub(super) fn of(program: &CheckedProgram, rank: usize, message: Instruction) -> Self {
        let edges = 2 * program.num_ranks();
        Self(match (message.lane(), message) {
            (Lane::Edge(edge), Instruction::Send { .. }) => edges + 2 * edge.index(),
            (Lane::Edge(edge), _) => edges + 2 * edge.index() + 1,
            (Lane::Reduce, _) => 2 * rank + 1,
            (Lane::Gather | Lane::Compute, _) => 2 * rank,
        })
    }
}

/// For each lane the places of its messages in the row, and how many of them have been taken in.
pub(super) struct Lanes {
    /// `[slot]`: ascending, as they are issued.
    places: Vec<Vec<u32>>,
    /// `[slot]`
    num_landed: Vec<usize>,
    /// `[rank]`: the lanes that it uses, ascending.
    used: Vec<Vec<Slot>>,
}

impl Lanes {
    pub(super) fn new(program: &CheckedProgram) -> Self {
        let rows = &program.program().rows;
        let num_slots = 2 * rows.len() + 4 * (program.chain().num_stages() - 1);
        let mut lanes =
            Self { places: vec![Vec::new(); num_slots], num_landed: vec![0; num_slots], used: Vec::new() };
        for (rank, row) in rows.iter().enumerate() {
            let mut used = Vec::new();
            for (index, &instruction) in row.iter().enumerate() {
                let lane = instruction.lane();
                if lane == Lane::Compute {
                    continue;
                }
                let slot = Slot::of(program, rank, instruction);
                if lanes.places[slot.0].is_empty() {
                    used.push((lane, slot));
                }
                lanes.places[slot.0].push(index as u32);
            }
            used.sort_unstable_by_key(|&(lane, _)| lane);
            lanes.used.push(used.into_iter().map(|(_, slot)| slot).collect());
        }
        lanes
    }

    /// The lanes that a rank uses, ascending.
    pub(super) fn used(&self, rank: usize, number: usize) -> Option<Slot> {
        self.used[rank].get(number).copied()
    }

    /// The place of the first message that has not been taken in.
    pub(super) fn first(&self, slot: Slot) -> Option<usize> {
        self.places[slot.0].get(self.num_landed[slot.0]).map(|&place| place as usize)
    }

    /// That message has been taken in.
    pub(super) fn land(&mut self, slot: Slot) {
        self.num_landed[slot.0] += 1;
    }
}
