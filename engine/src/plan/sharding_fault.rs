//! What is wrong with an entry of `zero_optimization.parameters`, once the model's layers are known.

use std::fmt;

/// No layer and no parameter has a name that the entry matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingFault {
    /// The names of the first layer, the second and the last.
    pub names: [String; 3],
}

impl fmt::Display for ShardingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, last] = &self.names;
        write!(f, "no layer and no parameter has a name like that: layers are {first}, {second}, ..., {last}")
    }
}

impl ShardingFault {
    /// What to do about it.
    pub(super) fn repair(&self) -> &'static str {
        "match at least one, or remove the entry"
    }
}
