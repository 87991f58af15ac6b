//! What is wrong with an entry of `zero_optimization.parameters`, once the model's units are known.

use std::fmt;

/// Why an entry of the list cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardingFault {
    /// No layer has such a name.
    MatchesNothing {
        /// The names of the first layer, the second and the last.
        names: [String; 3],
    },
    /// A unit holds layers that are to be sharded differently, and is one buffer.
    DividedUnit {
        /// The unit's first layer and its last.
        unit: [String; 2],
        /// A layer that the entry decides, and one that it does not.
        layers: [String; 2],
    },
}

impl fmt::Display for ShardingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MatchesNothing { names: [first, second, last] } => {
                write!(f, "no layer has a name like that: they are {first}, {second}, ..., {last}")
            }
            Self::DividedUnit { unit: [first, last], layers: [decided, other] } => write!(
                f,
                "it decides about {decided} and not about {other}, which lies in the same unit ({first} to {last}), gathered and \
                 reduced in one message"
            ),
        }
    }
}

impl ShardingFault {
    /// What to do about it.
    pub(super) fn repair(&self) -> &'static str {
        match self {
            Self::MatchesNothing { .. } => "match at least one, or remove the entry",
            Self::DividedUnit { .. } => "match all layers of the unit, or use smaller `unit_layers`",
        }
    }
}
