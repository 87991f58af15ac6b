//! The most that a rank ever holds, read off its row.

use alloc::vec::Vec;

use crate::gradient_buffers::GradientBuffers;
use crate::id::{PipelineRank, Stage, Unit};
use crate::instruction::Instruction;
use crate::program::{Program, Purpose};
use crate::slots::Slots;

/// The most that a rank ever holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWater {
    /// Gathered copies of units held at once.
    pub gathered_units: usize,
    /// Bytes of gathered copies held at once: at most those of the gather buffers.
    pub gathered_bytes: u64,
    /// For each stage of the rank, micro-batches whose activations are held at once.
    pub in_flight: Vec<(Stage, usize)>,
    /// Activations held at once over all stages of the rank, each of one stage and micro-batch. At most the sum of
    /// `in_flight`: stages need not be at their peaks together.
    pub activations: usize,
    /// The same, but only until the input gradient: what the zero-bubble papers count.
    pub activations_until_input: usize,
    /// Buffers of unsharded unit gradients: one per trained unit of which some are reduced last, and one, or two or three in turn, for those that are reduced after every micro-batch.
    pub gradient_buffers: usize,
}

pub(super) fn of_rank(
    program: &Program,
    slots: &Slots,
    gradients: &GradientBuffers,
    rank: PipelineRank,
) -> HighWater {
    let row = program.row(rank);
    let (gathered_units, gathered_bytes) = gathered(program, row);
    let stages = program.chain.placement().stages(rank);
    let in_flight = stages.map(|stage| (stage, slots.in_flight(stage))).collect();
    let accumulates = |unit: &Unit| program.options.accumulates(program.chain.facts(*unit));
    let gradient_buffers = match program.purpose {
        Purpose::Evaluation => 0,
        Purpose::Training => {
            gradients.bytes().len() + program.chain.units_on(rank).filter(accumulates).count()
        }
    };
    HighWater {
        gathered_units,
        gathered_bytes,
        in_flight,
        activations: slots.in_flight_on(rank),
        activations_until_input: until_input(program, row),
        gradient_buffers,
    }
}

fn until_input(program: &Program, row: &[Instruction]) -> usize {
    if program.purpose == Purpose::Evaluation {
        return 0;
    }
    let (mut held, mut most) = (0usize, 0);
    for &instruction in row {
        match instruction {
            Instruction::Forward { unit, .. } if program.chain.is_first(unit) => held += 1,
            Instruction::Backward { unit, .. } | Instruction::BackwardInput { unit, .. }
                if program.chain.is_first(unit) =>
            {
                held -= 1;
            }
            _ => {}
        }
        most = most.max(held);
    }
    most
}

/// The most gathered copies and the most bytes of them, not necessarily at the same moment.
fn gathered(program: &Program, row: &[Instruction]) -> (usize, u64) {
    // Wide, so that no sizes of a hand-written program overflow.
    let num_bytes = |unit| u128::from(program.chain.facts(unit).num_bytes);
    let (mut units, mut bytes) = (0usize, 0u128);
    let (mut most_units, mut most_bytes) = (0, 0);
    for instruction in row {
        match *instruction {
            Instruction::Unshard { unit } => {
                units += 1;
                bytes += num_bytes(unit);
            }
            Instruction::Reshard { unit } => {
                units -= 1;
                bytes -= num_bytes(unit);
            }
            _ => {}
        }
        most_units = most_units.max(units);
        most_bytes = most_bytes.max(bytes);
    }
    (most_units, u64::try_from(most_bytes).unwrap_or(u64::MAX))
}
