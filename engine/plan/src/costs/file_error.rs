//! What can be wrong with a costs file, whatever the plan.

use pipezero_files::json::JsonError;

use super::file::COSTS_VERSION;
use super::message_kind::MessageKind;
use super::unit_key::in_words;

/// Why a costs file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostsFileError {
    /// The file could not be read.
    #[error("{name}: cannot read the costs file: {reason}; name one that `pipezero profile` has written")]
    Unreadable {
        /// The file.
        name: String,
        /// The system's reason.
        reason: String,
    },
    /// The text is not JSON, a key is unknown or missing, or a value is not allowed for its key.
    #[error("{name}:{line}:{column}: {message}; mend it, or measure again with `pipezero profile`")]
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
    #[error("{name}:{line}:{column}: {rule}")]
    Rule {
        /// The file.
        name: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What it breaks.
        rule: CostsFileRule,
    },
}

impl From<JsonError> for CostsFileError {
    fn from(error: JsonError) -> Self {
        let (line, column) = error.span.line_column();
        Self::Syntax { name: error.span.source.name.clone(), line, column, message: error.to_string() }
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
    /// Figures beside a mean that they cannot have.
    #[error(
        "`rank_slowness_ppm` is {mean_ppm} in the mean, and what ranks take beside their own mean is about 1000000: remove it, or \
         measure again with `pipezero profile`"
    )]
    MeanSlowness {
        /// The mean of all.
        mean_ppm: u64,
    },
    /// One half of a backward was measured, and the other was not.
    #[error(
        "the unit of {} has one of `backward_input_ns` and `backward_weight_ns`: halves are measured together; give both, or \
         `backward_ns` alone",
        in_words(layers)
    )]
    OneHalf {
        /// Its layers.
        layers: Vec<String>,
    },
    /// A unit was never run backward.
    #[error(
        "the unit of {} has no backward: give it `backward_ns`, or `backward_input_ns` and `backward_weight_ns`",
        in_words(layers)
    )]
    NoBackward {
        /// Its layers.
        layers: Vec<String>,
    },
    /// The frozen part of a unit is all of it, or stands beside `frozen`.
    #[error(
        "the unit of {} has {num_frozen} frozen parameters of {parameters}, which is no part of a trained unit: leave `frozen_parameters` out, or write fewer",
        in_words(layers)
    )]
    FrozenPart {
        /// Its layers.
        layers: Vec<String>,
        /// What it has as frozen.
        num_frozen: u64,
        /// All its parameters.
        parameters: u64,
    },
    /// Two entries for one unit.
    #[error("the unit of {} stands twice: keep one of the two", in_words(layers))]
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
    /// The value of a key cannot be.
    #[error("`{path}` {fault}")]
    Key {
        /// The key.
        path: String,
        /// What is wrong with its value.
        fault: KeyFault,
    },
}

/// What is wrong with the value of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// A unit without layers.
    #[error("is empty: a unit has at least one layer; remove the unit, or name its layers")]
    NoLayers,
    /// A count of 0.
    #[error("is 0, but there is at least 1: write how many there were, or measure again")]
    None,
    /// An empty name.
    #[error("is \"\", but a name has at least one character: write one")]
    NoName,
    /// A name that no terminal prints as it is.
    #[error(
        "has the control character U+{:04X}, but names are printed: take it out", u32::from(*control)
    )]
    Unprintable {
        /// The character.
        control: char,
    },
    /// A layer by its name, not by its kind.
    #[error("is \"{layer}\", but layers are named by kind, with `*` for numbers: write \"{expected}\"")]
    LayerNumber {
        /// What stands there.
        layer: String,
        /// Its kind.
        expected: String,
    },
    /// Work on nothing that takes time.
    #[error(
        "is 0, but its `ns` is {ns}: time is in proportion to elements; write how many there were, or 0 for both"
    )]
    NoElements {
        /// What they take together.
        ns: u64,
    },
    /// A message to more ranks than one, or to none.
    #[error("is {ranks}, but `{kind}` goes from one rank to another: write 2, or measure again")]
    NoPair {
        /// The kind.
        kind: MessageKind,
        /// What stands there.
        ranks: u64,
    },
    /// A weight of more uses than two.
    #[error(
        "is {ranks}, but `add_tied` is between the ranks of a weight's two uses: write 2, or 1 where one rank has both, \
         or measure again"
    )]
    TiedRanks {
        /// What stands there.
        ranks: u64,
    },
    /// A message without sizes.
    #[error("is empty: a message was measured at one size at least; add one, or remove the message")]
    NoSizes,
    /// Sizes out of order.
    #[error("is {bytes}, behind {before}: sizes ascend, and none is there twice; sort them")]
    Unsorted {
        /// What stands there.
        bytes: u64,
        /// What stands before it.
        before: u64,
    },
}
