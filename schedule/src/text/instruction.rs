//! Instructions from text.

use core::str::FromStr;

use super::cursor::{Cursor, parse_id, quoted};
use super::{ParseError, Problem};
use crate::id::{MicroBatch, Stage, Unit};
use crate::instruction::{Edge, Instruction, InstructionKind};

/// The words of [`InstructionKind::ALL`], as an error lists them.
pub(super) const KINDS: &str = "`F`, `B`, `I`, `W`, `R`, `UNSHARD`, `RESHARD`, `REDUCE`, `REDUCE_LAST`, `ALL_REDUCE`, `SEND`, \
                     `RECV`, `ADD_TIED`, `GRAD_NORM`, `STEP` or `GATHER_STEP`";

impl FromStr for Instruction {
    type Err = ParseError;

    /// Reads what [`Instruction`] prints, and nothing else.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(1, text);
        let instruction = instruction(&mut cursor)?;
        cursor.end()?;
        Ok(instruction)
    }
}

/// Takes an instruction.
pub(super) fn instruction(cursor: &mut Cursor<'_>) -> Result<Instruction, ParseError> {
    use {Instruction as I, InstructionKind as Kind};
    Ok(match kind(cursor)? {
        Kind::Forward => I::Forward { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::Backward => I::Backward { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::BackwardInput => I::BackwardInput { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::BackwardWeight => I::BackwardWeight { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::Recompute => I::Recompute { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::Unshard => I::Unshard { unit: unit(cursor)? },
        Kind::Reshard => I::Reshard { unit: unit(cursor)? },
        Kind::Reduce => I::Reduce { unit: unit(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::ReduceLast => I::ReduceLast { unit: unit(cursor)? },
        Kind::AllReduce => I::AllReduce { unit: unit(cursor)? },
        Kind::Send => I::Send { edge: edge(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::Receive => I::Receive { edge: edge(cursor)?, micro_batch: micro_batch(cursor)? },
        Kind::AddTied => I::AddTied { embedding: unit(cursor)?, head: unit(cursor)? },
        Kind::GradientNorm => I::GradientNorm,
        Kind::OptimizerStep => I::OptimizerStep { unit: unit(cursor)? },
        Kind::GatherAfterStep => I::GatherAfterStep { unit: unit(cursor)? },
    })
}

fn kind(cursor: &mut Cursor<'_>) -> Result<InstructionKind, ParseError> {
    cursor.one_of(&InstructionKind::ALL.map(|(kind, word)| (word, kind)), KINDS)
}

fn unit(cursor: &mut Cursor<'_>) -> Result<Unit, ParseError> {
    cursor.id(Unit::PREFIX, "a unit as in `u0`").map(Unit)
}

fn micro_batch(cursor: &mut Cursor<'_>) -> Result<MicroBatch, ParseError> {
    cursor.id(MicroBatch::PREFIX, "a micro-batch as in `m0`").map(MicroBatch)
}

fn edge(cursor: &mut Cursor<'_>) -> Result<Edge, ParseError> {
    let expected = "an edge as in `s0>s1`";
    let word = cursor.word(expected)?;
    let ends = word.split_once('>').and_then(|(sender, receiver)| {
        Some((parse_id(sender, Stage::PREFIX)?, parse_id(receiver, Stage::PREFIX)?))
    });
    let Some((sender, receiver)) = ends else { return Err(cursor.unexpected(word, expected)) };
    if sender.checked_add(1) == Some(receiver) {
        Ok(Edge::Up(Stage(sender)))
    } else if receiver.checked_add(1) == Some(sender) {
        Ok(Edge::Down(Stage(receiver)))
    } else {
        Err(cursor.problem(Problem::NotNeighbours { found: quoted(word) }))
    }
}
