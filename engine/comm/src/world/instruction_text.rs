//! Instructions as text, where one process tells another about them.

use std::fmt::Display;

use pipezero_schedule::Instruction;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes an instruction as its text.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(instruction: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(instruction)
}

/// Reads an instruction from its text.
///
/// # Errors
/// When the text is no instruction.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instruction, D::Error> {
    parsed(&String::deserialize(from)?)
}

/// Where there may be none.
pub(super) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        instruction: &Option<Instruction>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(&instruction.map_or_else(String::new, |instruction| instruction.to_string()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Instruction>, D::Error> {
        let text = String::deserialize(from)?;
        (!text.is_empty()).then(|| parsed(&text)).transpose()
    }
}

fn parsed<E: Error>(text: &str) -> Result<Instruction, E> {
    text.parse().map_err(|_| E::custom(format_args!("`{text}` is no instruction")))
}

#[cfg(test)]
mod tests {
    use pipezero_schedule::{Edge, MicroBatch, Stage, Unit};

    use super::*;
    use crate::world::Position;

    #[test]
    fn another_process_reads_every_position() {
        let (unit, micro_batch, edge) = (Unit(3), MicroBatch(12), Edge::Up(Stage(1)));
        let instructions = [
            Instruction::Forward { unit, micro_batch },
            Instruction::Recompute { unit, micro_batch },
            Instruction::Backward { unit, micro_batch },
            Instruction::BackwardInput { unit, micro_batch },
            Instruction::BackwardWeight { unit, micro_batch },
            Instruction::Unshard { unit },
            Instruction::Reshard { unit },
            Instruction::Reduce { unit, micro_batch },
            Instruction::ReduceLast { unit },
            Instruction::AllReduce { unit },
            Instruction::Send { edge, micro_batch },
            Instruction::Receive { edge: Edge::Down(Stage(2)), micro_batch },
            Instruction::AddTied { embedding: Unit(0), head: unit },
            Instruction::GradientNorm,
            Instruction::OptimizerStep { unit },
            Instruction::GatherAfterStep { unit },
        ];
        let (step, index) = (7, 40);
        let others = [Position::Idle, Position::AddingLosses, Position::Reading { step, micro_batch: 2 }];
        let at = instructions.into_iter().flat_map(|instruction| {
            let waits_for = instruction;
            [
                Position::At { step, index, instruction },
                Position::Waiting { step, index, instruction, waits_for },
                Position::Draining { step, waits_for },
                Position::Probing { instruction: Some(instruction), num_elements: 9 },
                Position::Probing { instruction: None, num_elements: 9 },
            ]
        });
        for position in at.chain(others) {
            let text = serde_json::to_string(&position).unwrap();
            assert_eq!(serde_json::from_str::<Position>(&text).unwrap(), position, "{text}");
        }
    }
}
