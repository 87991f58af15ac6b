//! Keys that have no effect here: DeepSpeed's hints, what is not offered, and what is not offered yet.
//!
//! A plain DeepSpeed file has many keys that only tune how DeepSpeed does a thing. Those are *hints*: accepted, with one
//! line that says what decides it here. A key that would change memory or numbers must not be passed over in silence:
//! it is an error, unless its value switches the feature off. The names are DeepSpeed's, from its configuration at
//! revision edaa7221 and in release 0.19.8, with those of older releases that its examples still have.

mod top;
mod zero;

use crate::files::json::{Node, Value};

/// A key without effect.
#[derive(Debug)]
pub(crate) struct ForeignKey {
    /// Its name.
    pub(crate) name: &'static str,
    /// How it is taken.
    pub(crate) meaning: Meaning,
}

impl ForeignKey {
    /// Whether it shapes ZeRO-3 alone, and so asks for nothing beside a lower level; DeepSpeed names such keys alike.
    pub(crate) fn is_zero3_alone(&self) -> bool {
        self.name.starts_with("stage3_")
    }
}

/// How a key without effect is taken.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// Accepted in silence: it speaks to editors.
    Silent,
    /// Accepted; the text says what decides that here.
    Hint(&'static str),
    /// An error, unless `off` says that the value asks for nothing.
    NotOffered {
        /// Values that ask for nothing.
        off: Off,
        /// What other values ask for.
        what: &'static str,
        /// What to write instead.
        repair: &'static str,
    },
    /// The same, for what is to come.
    NotOfferedYet {
        /// Values that ask for nothing.
        off: Off,
        /// What other values ask for.
        what: &'static str,
        /// What to write for now.
        repair: &'static str,
    },
}

/// Values that switch a feature off.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Off {
    /// None does; the key itself asks for the feature.
    Never,
    /// `false`.
    False,
    /// `true`, where the feature is to do without something.
    True,
    /// This number.
    Number(f64),
    /// This word.
    Word(&'static str),
    /// An object whose `enabled` is false or absent.
    Disabled,
    /// An object in which this switch is false or absent.
    Without(&'static str),
    /// An object whose `device` is `"none"` or absent.
    NoDevice,
    /// A list without elements.
    Empty,
}

impl Off {
    /// Whether `node` asks for nothing. `null` never asks for anything.
    pub(crate) fn holds(self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Never, _) => false,
            (_, Value::Null)
            | (Self::Disabled, Value::Bool(false))
            | (Self::False, Value::Bool(false))
            | (Self::True, Value::Bool(true)) => true,
            (Self::Number(off), Value::Number) => node.span.written().parse() == Ok(off),
            (Self::Word(off), Value::String(text)) => text == off,
            (Self::Empty, Value::Array(elements)) => elements.is_empty(),
            (Self::Disabled, Value::Object(_)) => Self::Without("enabled").holds(node),
            (Self::Without(switch), Value::Object(entries)) => {
                entries.iter().all(|entry| entry.key != switch || Self::False.holds(&entry.node))
            }
            (Self::NoDevice, Value::Object(entries)) => {
                entries.iter().all(|entry| entry.key != "device" || Self::Word("none").holds(&entry.node))
            }
            _ => false,
        }
    }

    /// The value that switches the feature off, as JSON.
    pub(crate) fn spelled(self) -> String {
        match self {
            Self::Never => "absent".to_owned(),
            Self::False => "`false`".to_owned(),
            Self::True => "`true`".to_owned(),
            Self::Number(off) => format!("`{off}`"),
            Self::Word(off) => format!("`\"{off}\"`"),
            Self::Disabled => "`{\"enabled\": false}`".to_owned(),
            Self::Without(switch) => format!("`{{\"{switch}\": false}}`"),
            Self::NoDevice => "`{\"device\": \"none\"}`".to_owned(),
            Self::Empty => "`[]`".to_owned(),
        }
    }
}

/// The keys without effect of the section at `path`.
pub(crate) fn foreign(path: &str) -> &'static [ForeignKey] {
    match path {
        "" => top::TOP,
        "comm" => top::COMM,
        "optimizer" => top::OPTIMIZER,
        "optimizer.params" => top::OPTIMIZER_PARAMS,
        "scheduler.params" => top::SCHEDULER_PARAMS,
        "fp16" => top::FP16,
        "bf16" => top::BF16,
        "data_types" => top::DATA_TYPES,
        "activation_checkpointing" => top::ACTIVATION_CHECKPOINTING,
        "checkpoint" => top::CHECKPOINT,
        "zero_optimization" => zero::ZERO,
        _ => &[],
    }
}

const fn hint(name: &'static str, decides: &'static str) -> ForeignKey {
    ForeignKey { name, meaning: Meaning::Hint(decides) }
}

const fn not_offered(name: &'static str, off: Off, what: &'static str, repair: &'static str) -> ForeignKey {
    ForeignKey { name, meaning: Meaning::NotOffered { off, what, repair } }
}

const fn not_yet(name: &'static str, off: Off, what: &'static str, repair: &'static str) -> ForeignKey {
    ForeignKey { name, meaning: Meaning::NotOfferedYet { off, what, repair } }
}
