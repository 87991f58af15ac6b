//! Keys that have no effect here: DeepSpeed's hints, what is not offered, and what is not offered yet.
//!
//! A plain DeepSpeed file has many keys that only tune how DeepSpeed does a thing. Those are *hints*: accepted, with one
//! line that says what decides it here. A key that would change memory or numbers must not be passed over in silence:
//! it is an error, unless its value switches the feature off. What DeepSpeed knows inside such a section is listed too:
//! the section's line speaks for those keys, and any other is unknown. The names are DeepSpeed's, from its configuration at
//! revision edaa7221 and in release 0.19.8, with those of older releases that its examples still have, and words with which transformers and
//! accelerate load a model for DeepSpeed.

use pipezero_files::json::{Entry, Node, Value, join};

/// What decides how weights are loaded.
const LOADING: &str = "each rank keeps only the parameters that it holds, and reads at most 1 MiB of values at a time; of a checkpoint whole blocks of 1 MiB are read, some of them several times, so more bytes are read than are kept; `train` says how much a process held";

/// What decides how a model is made that is sharded from the beginning.
const SHARDED_AT_START: &str = "every engine starts sharded: a rank draws or reads only what it holds";

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
        /// Whether it is to come.
        offer: Offer,
        /// Values that ask for nothing.
        off: Off,
        /// What other values ask for.
        what: &'static str,
        /// What to write instead, where it is more than to remove the key or to set it to `off`.
        repair: Option<&'static str>,
    },
}

/// Whether a feature that is not there is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Never,
    Later,
}

impl Offer {
    /// As the title of a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Never => "Not offered",
            Self::Later => "Not offered yet",
        }
    }
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
    /// This word, in any case.
    Word(&'static str),
    /// A name of f32.
    F32,
    /// No positive number.
    NotPositive,
    /// An object in which nothing, at any depth, is `enabled`.
    NoneEnabled,
    /// `null`.
    Null,
    /// An object whose `enabled` is false or absent.
    Disabled,
    /// An object in which this degree is at most 1 or absent.
    NoDegree(&'static str),
    /// An object whose `device` is `"none"` or absent.
    NoDevice,
    /// A list without elements.
    Empty,
}

impl Off {
    /// Whether `node` asks for nothing. `null` never asks for anything, and `"auto"` is DeepSpeed's default: its models
    /// drop such a value before they read it.
    pub(crate) fn holds(self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Never, _) => false,
            (_, Value::String(text)) if text == "auto" => true,
            (_, Value::Null)
            | (Self::Disabled, Value::Bool(false))
            | (Self::False, Value::Bool(false))
            | (Self::True, Value::Bool(true)) => true,
            (Self::Number(off), Value::Number) => node.span.written().parse() == Ok(off),
            (Self::Word(off), Value::String(text)) => text.eq_ignore_ascii_case(off),
            (Self::F32, Value::String(text)) => F32_NAMES.iter().any(|name| text.eq_ignore_ascii_case(name)),
            (Self::NotPositive, Value::Number) => {
                node.span.written().parse::<f64>().is_ok_and(|number| number <= 0.0)
            }
            (Self::NoneEnabled, Value::Object(_)) => !has_enabled(node),
            (Self::Empty, Value::Array(elements)) => elements.is_empty(),
            (Self::Disabled, Value::Object(entries)) => without(entries, "enabled", Self::False),
            (Self::NoDegree(degree), Value::Object(entries)) => {
                [0.0, 1.0].iter().any(|&off| without(entries, degree, Self::Number(off)))
            }
            (Self::NoDevice, Value::Object(entries)) => without(entries, "device", Self::Word("none")),
            _ => false,
        }
    }

    /// The value that switches the feature off, as JSON; "absent" where none does.
    pub(crate) fn json(self) -> String {
        match self {
            Self::Never => "absent".to_owned(),
            Self::False => "false".to_owned(),
            Self::True => "true".to_owned(),
            Self::Number(off) => off.to_string(),
            Self::Word(off) => format!("\"{off}\""),
            Self::F32 => Self::Word("fp32").json(),
            Self::NotPositive => "-1".to_owned(),
            Self::NoneEnabled => Self::Disabled.json(),
            Self::Null => "null".to_owned(),
            Self::Disabled => "{\"enabled\": false}".to_owned(),
            Self::NoDegree(degree) => format!("{{\"{degree}\": 1}}"),
            Self::NoDevice => "{\"device\": \"none\"}".to_owned(),
            Self::Empty => "[]".to_owned(),
        }
    }

    /// The values that switch the feature off, as a page lists them. `null` and `"auto"` do so too, but for [`Self::Never`].
    pub(crate) fn accepted(self) -> String {
        match self {
            Self::Never => self.json(),
            Self::F32 => F32_NAMES.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", "),
            Self::NotPositive => format!("`{}`, or another number that is not positive", self.json()),
            Self::NoneEnabled => "an object in which nothing is `enabled`".to_owned(),
            Self::Disabled => format!("`false`, `{}`", self.json()),
            Self::NoDegree(degree) => format!("`{}`, `{{\"{degree}\": 0}}`", self.json()),
            _ => format!("`{}`", self.json()),
        }
    }

    /// What to write instead of a value that asks for something.
    pub(crate) fn repair(self) -> String {
        match self {
            Self::False | Self::True | Self::Number(_) | Self::NotPositive => {
                format!("remove it, or set {}", self.json())
            }
            Self::Word(_) | Self::F32 => format!("remove it, or write {}", self.json()),
            _ => "remove it".to_owned(),
        }
    }
}

/// What else is accepted of keys that ask for nothing beside certain other keys.
pub(crate) const ALSO_ACCEPTED: &[(&str, &str)] = &[
    ("data_types.param_dtype", "the type that `bf16` and `fp16` select"),
    ("optimizer.params.adam_w_mode", "any value with the optimizer type \"AdamW\""),
];

/// The names that DeepSpeed has for f32, in any case (`runtime/config.py:101`).
pub(crate) const F32_NAMES: &[&str] = &["fp32", "float32", "float", "torch.float32"];

/// Whether something in a value, at any depth, is enabled.
fn has_enabled(node: &Node) -> bool {
    match &node.value {
        Value::Object(entries) => entries.iter().any(|entry| {
            entry.key == "enabled" && !Off::False.holds(&entry.node) || has_enabled(&entry.node)
        }),
        Value::Array(elements) => elements.iter().any(has_enabled),
        Value::Null | Value::Bool(_) | Value::Number | Value::String(_) => false,
    }
}

/// Whether the key `name` of an object is absent, or asks for nothing.
fn without(entries: &[Entry], name: &str, off: Off) -> bool {
    entries.iter().all(|entry| entry.key != name || off.holds(&entry.node))
}

/// Declares a table of keys without effect, each a line: how it is taken, its name, values that ask for nothing behind
/// `unless`, what it asks for or, of a hint, what decides that here, and where the usual repair does not do, another.
macro_rules! foreign_keys {
    ($table:ident: $(
        $kind:ident $name:literal $(unless $off:ident $(($value:expr))?)? $(: $what:expr $(, $repair:expr)?)?;
    )*) => {
        pub(super) const $table: &[ForeignKey] = &[$(
            ForeignKey {
                name: $name,
                // Of each list the first element counts: the default stands behind what may be written.
                meaning: foreign_keys!(
                    $kind [$(Off::$off $(($value))?,)? Off::Never] $( $what, [$(Some($repair),)? None] )?
                ),
            },
        )*];
    };
    (silent $off:tt) => { Meaning::Silent };
    (hint $off:tt $decides:expr, $repair:tt) => { Meaning::Hint($decides) };
    (never $off:tt $what:expr, $repair:tt) => {
        Meaning::NotOffered { offer: Offer::Never, off: $off[0], what: $what, repair: $repair[0] }
    };
    (later $off:tt $what:expr, $repair:tt) => {
        Meaning::NotOffered { offer: Offer::Later, off: $off[0], what: $what, repair: $repair[0] }
    };
}

mod inner;
mod model;
mod top;
mod zero;

pub(crate) use inner::{INNER, inner};

/// The keys without effect of the section at `path`.
pub(crate) fn foreign(path: &str) -> &'static [ForeignKey] {
    match path {
        "" => top::TOP,
        "optimizer" => top::OPTIMIZER,
        "optimizer.params" => top::OPTIMIZER_PARAMS,
        "scheduler.params" => top::SCHEDULER_PARAMS,
        "fp16" => top::FP16,
        "bf16" => top::BF16,
        "data_types" => top::DATA_TYPES,
        "activation_checkpointing" => top::ACTIVATION_CHECKPOINTING,
        "checkpoint" => top::CHECKPOINT,
        "compile" => top::COMPILE,
        "pipeline" => top::PIPELINE,
        "model" => model::MODEL,
        "data" => model::DATA,
        "zero_optimization" => zero::ZERO,
        _ => &[],
    }
}

/// The keys without effect of the section at `path`, and those of the sections without effect inside it, each with its
/// section.
pub(crate) fn foreign_within(path: &str) -> Vec<(String, &'static ForeignKey)> {
    let mut keys = Vec::new();
    for key in foreign(path) {
        keys.push((path.to_owned(), key));
        keys.extend(foreign_within(&join(path, key.name)));
    }
    keys
}
