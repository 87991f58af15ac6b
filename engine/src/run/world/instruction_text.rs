//! Instructions as text, where one process tells another about them.

use std::fmt::Display;

use pipezero_schedule::Instruction;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(instruction: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(instruction)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instruction, D::Error> {
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
