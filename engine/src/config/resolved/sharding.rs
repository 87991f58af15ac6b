//! What is sharded under ZeRO-3, by names.

use std::fmt;

use pipezero_partition::UnitSharding;
use serde::{Serialize, Serializer};

/// What becomes of layers whose name a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingRule {
    /// What becomes of them.
    pub sharding: UnitSharding,
    /// A regular expression, found anywhere in a layer's name, whatever the case.
    pub pattern: String,
}

impl ShardingRule {
    /// The word for what becomes of the layers.
    pub fn word(&self) -> &'static str {
        match self.sharding {
            UnitSharding::Sharded => "sharded",
            UnitSharding::Persistent => "persistent",
            UnitSharding::Whole => "whole",
        }
    }
}

/// As the run file spells it.
impl fmt::Display for ShardingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.word(), self.pattern)
    }
}

impl Serialize for ShardingRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
