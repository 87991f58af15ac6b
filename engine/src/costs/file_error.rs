//! What can be wrong with a costs file by itself.

use serde_json::error::Category;

use super::file::{COSTS_VERSION, MessageKind};

/// Why a costs file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostsFileError {
    /// The file could not be read.
    #[error("{name}: cannot read the costs file: {reason}")]
    Unreadable {
        /// The file.
        name: String,
        /// The system's reason.
        reason: String,
    },
    /// The text is not JSON, a key is unknown or missing, or a value is none of its key.
    #[error("{name}:{line}:{column}: {message}; costs files are what `pipezero profile` writes")]
    Syntax {
        /// The file.
        name: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// Value and rule.
        message: String,
    },
    /// The file is well formed, and what it says cannot be.
    #[error("{name}: {rule}")]
    Rule {
        /// The file.
        name: String,
        /// What it breaks.
        rule: CostsFileRule,
    },
}

impl CostsFileError {
    /// Takes the place out of the parser's message, where it stands behind the text.
    pub(super) fn syntax(name: &str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let message = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        let message = match error.classify() {
            Category::Syntax | Category::Eof => format!("this is not JSON: {message}"),
            Category::Data | Category::Io => message.to_owned(),
        };
        Self::Syntax { name: name.to_owned(), line, column, message }
    }
}

/// A rule that a costs file breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostsFileRule {
    /// It was written for another program.
    #[error(
        "`version` is {version}, and this pipezero reads {COSTS_VERSION}: measure again with `pipezero profile`"
    )]
    Version {
        /// The file's.
        version: u64,
    },
    /// There is nothing in it.
    #[error("`units` is empty: a model has at least one unit; measure again with `pipezero profile`")]
    NoUnits,
    /// Not all ranks are there.
    #[error(
        "`rank_slowness_ppm[{step}]` has {ranks} entries, and `host.ranks` is {expected}: a step has one for each rank; \
         remove the step, or measure again with `pipezero profile`"
    )]
    RanksOfStep {
        /// Its place.
        step: usize,
        /// How many it has.
        ranks: usize,
        /// How many there were.
        expected: u64,
    },
    /// A unit consists of nothing.
    #[error("`units[{index}].layers` is empty: a unit has at least one layer; remove it")]
    NoLayers {
        /// Its place.
        index: usize,
    },
    /// A unit was never run backward.
    #[error(
        "the unit of {} has no backward: give it `backward_ns`, or `backward_input_ns` and `backward_weight_ns`",
        layers.join(", ")
    )]
    NoBackward {
        /// Its layers.
        layers: Vec<String>,
    },
    /// Two entries for one unit.
    #[error("the unit of {} stands twice: keep one of the two", layers.join(", "))]
    UnitTwice {
        /// Its layers.
        layers: Vec<String>,
    },
    /// Two entries for one kind of message.
    #[error("`{kind}` between {ranks} ranks stands twice: keep one of the two")]
    MessageTwice {
        /// The kind.
        kind: MessageKind,
        /// Ranks.
        ranks: u64,
    },
    /// Sizes that say nothing.
    #[error(
        "`{kind}` between {ranks} ranks: `ranks` is at least 1, and `sizes` at least one entry, ascending in bytes"
    )]
    Sizes {
        /// The kind.
        kind: MessageKind,
        /// Ranks.
        ranks: u64,
    },
}
