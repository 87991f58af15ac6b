//! What is wrong with a pattern of `train_only`, once the model's layers are known.

use std::fmt;

/// Why `train_only` cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrainOnlyFault {
    /// No layer has such a name.
    MatchesNothing {
        /// The names of the first layer, the second and the last.
        names: [String; 3],
    },
    /// The layers that are matched have no parameters.
    NothingTrained,
}

impl fmt::Display for TrainOnlyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MatchesNothing { names: [first, second, last] } => {
                write!(f, "no layer has a name like that: they are {first}, {second}, ..., {last}")
            }
            Self::NothingTrained => {
                f.write_str("the layers that it matches have no parameters, so nothing would be trained")
            }
        }
    }
}

impl TrainOnlyFault {
    /// What to do about it.
    pub(super) fn repair(&self) -> &'static str {
        match self {
            Self::MatchesNothing { .. } => "match at least one, or remove the entry",
            Self::NothingTrained => "match a layer that has parameters",
        }
    }
}
