//! What is wrong with an entry of `zero_optimization.parameters`, once the model's units are known.

use std::fmt;

/// Why an entry of the list cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardingFault {
    /// No layer and no parameter has such a name.
    MatchesNothing {
        /// The names of the first layer, the second and the last.
        names: [String; 3],
    },
    /// A unit holds parameters that are to be whole, and others.
    HalfWholeUnit {
        /// The unit's first layer and its last.
        unit: [String; 2],
        /// A parameter that is to be whole, and one that is not.
        parameters: [String; 2],
    },
}

impl fmt::Display for ShardingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MatchesNothing { names: [first, second, last] } => {
                write!(
                    f,
                    "no layer and no parameter has a name like that: layers are {first}, {second}, ..., {last}"
                )
            }
            Self::HalfWholeUnit { unit: [first, last], parameters: [whole, other] } => write!(
                f,
                "{whole} would be whole and {other} not, which lies in the same unit ({first} to {last}), and a unit is whole in all its \
                 parameters or in none"
            ),
        }
    }
}

impl ShardingFault {
    /// What to do about it.
    pub(super) fn repair(&self) -> &'static str {
        match self {
            Self::MatchesNothing { .. } => "match at least one, or remove the entry",
            Self::HalfWholeUnit { .. } => "match all layers of the unit, or use smaller `unit_layers`",
        }
    }
}
