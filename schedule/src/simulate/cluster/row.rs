//! The lanes of a row: which messages go over each, in the order of their issue.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::instruction::{Instruction, Lane};

/// What stands for no lane of messages.
const NONE: u32 = u32::MAX;

/// A row that all data ranks of a pipeline rank run.
pub(super) struct Row<'a> {
    pub(super) instructions: &'a [Instruction],
    /// `[index]`: the number of a message's lane.
    lanes: Vec<u32>,
    /// `[lane number]`, lanes ascending: the positions of its messages.
    positions: Vec<Vec<u32>>,
}

impl<'a> Row<'a> {
    pub(super) fn new(instructions: &'a [Instruction]) -> Self {
        let mut by_lane: BTreeMap<Lane, Vec<u32>> = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            if instruction.lane() != Lane::Compute {
                by_lane.entry(instruction.lane()).or_default().push(index as u32);
            }
        }
        let mut lanes = vec![NONE; instructions.len()];
        for (number, positions) in by_lane.values().enumerate() {
            positions.iter().for_each(|&position| lanes[position as usize] = number as u32);
        }
        Self { instructions, lanes, positions: by_lane.into_values().collect() }
    }

    pub(super) fn num_lanes(&self) -> usize {
        self.positions.len()
    }

    /// The number of a message's lane; `None` for a compute.
    pub(super) fn lane(&self, index: usize) -> Option<usize> {
        let number = self.lanes[index];
        (number != NONE).then_some(number as usize)
    }

    /// The position of a lane's message, if the lane has that many.
    pub(super) fn position(&self, lane: usize, number: usize) -> Option<usize> {
        self.positions[lane].get(number).map(|&position| position as usize)
    }
}
