//! How pictures name lanes and operands.

use alloc::format;
use alloc::string::String;

use crate::id::{MicroBatch, Unit};
use crate::instruction::{Instruction, Lane};

/// The name of a row of a lane: the lane's own, with its number where the lane has several and this is not the first.
pub(super) fn lane_name(lane: Lane, number: usize) -> String {
    let name = match lane {
        Lane::Compute => String::from("compute"),
        Lane::Gather => String::from("gather"),
        Lane::Reduce => String::from("reduce"),
        Lane::Edge(edge) => format!("{edge}"),
    };
    if number == 0 { name } else { format!("{name} ({})", number + 1) }
}

/// The unit and the micro-batch that an instruction names, where it names one.
pub(super) fn operands(instruction: Instruction) -> (Option<Unit>, Option<MicroBatch>) {
    match instruction {
        Instruction::Forward { unit, micro_batch }
        | Instruction::Backward { unit, micro_batch }
        | Instruction::BackwardInput { unit, micro_batch }
        | Instruction::BackwardWeight { unit, micro_batch }
        | Instruction::Recompute { unit, micro_batch }
        | Instruction::Reduce { unit, micro_batch } => (Some(unit), Some(micro_batch)),
        Instruction::Unshard { unit }
        | Instruction::Reshard { unit }
        | Instruction::ReduceLast { unit }
        | Instruction::AllReduce { unit }
        | Instruction::OptimizerStep { unit }
        | Instruction::GatherAfterStep { unit } => (Some(unit), None),
        Instruction::Send { micro_batch, .. } | Instruction::Receive { micro_batch, .. } => {
            (None, Some(micro_batch))
        }
        Instruction::AddTied { .. } | Instruction::GradientNorm => (None, None),
    }
}
