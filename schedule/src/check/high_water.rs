//! The most that a rank ever holds, read off its row.

use alloc::vec::Vec;

use crate::id::{PipelineRank, Stage};
use crate::instruction::Instruction;
use crate::options::Reduction;
use crate::program::{Program, Purpose};
use crate::protocol::{GRADIENT_BUFFERS, weight_gradient};
use crate::slots::Slots;

/// The most that a rank ever holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWater {
    /// Gathered copies of units held at once.
    pub gathered_units: usize,
    /// For each stage of the rank, micro-batches whose activations are held at once.
    pub in_flight: Vec<(Stage, usize)>,
    /// Activations held at once over all stages of the rank, each of one stage and micro-batch. At most the sum of
    /// `in_flight`: stages need not be at their peaks together.
    pub activations: usize,
    /// Unsharded unit gradients held at once: one per unit if reduced last, two buffers in turn if after every
    /// micro-batch.
    pub gradient_buffers: usize,
}

pub(super) fn of_rank(program: &Program, slots: &Slots, rank: PipelineRank) -> HighWater {
    let row = program.row(rank);
    let mut held = 0usize;
    let mut gathered_units = 0;
    for instruction in row {
        match instruction {
            Instruction::Unshard { .. } => held += 1,
            Instruction::Reshard { .. } => held -= 1,
            _ => {}
        }
        gathered_units = gathered_units.max(held);
    }
    let stages = program.chain.placement().stages(rank);
    let in_flight = stages.map(|stage| (stage, slots.in_flight(stage))).collect();
    let num_gradients = row.iter().filter(|&&instruction| weight_gradient(instruction).is_some()).count();
    let gradient_buffers = match (program.purpose, program.options.reduction) {
        (Purpose::Evaluation, _) => 0,
        (Purpose::Training, Reduction::ScatterEvery) => num_gradients.min(GRADIENT_BUFFERS),
        (Purpose::Training, Reduction::ScatterLast | Reduction::AllReduceLast) => {
            program.chain.units_on(rank).count()
        }
    };
    HighWater { gathered_units, in_flight, activations: slots.in_flight_on(rank), gradient_buffers }
}
