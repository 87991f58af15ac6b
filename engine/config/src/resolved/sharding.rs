//! What is sharded under ZeRO-3, by names.

use std::fmt;

use pipezero_partition::UnitSharding;
use serde::{Serialize, Serializer};

/// What is sharded, persistent and whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ShardingConfig {
    /// By names of parameters and layers. Of several entries that match a parameter the last decides; without an entry, thresholds say what persists.
    #[serde(rename = "parameters")]
    Listed(Vec<ShardingRule>),
    /// The plan makes the list.
    #[serde(rename = "sharding", serialize_with = "auto")]
    Auto,
}

impl ShardingConfig {
    /// Everything is sharded but what a threshold lets persist.
    pub const SHARDED: Self = Self::Listed(Vec::new());

    /// The list; none before the plan has made one.
    pub fn rules(&self) -> &[ShardingRule] {
        match self {
            Self::Listed(rules) => rules,
            Self::Auto => &[],
        }
    }

    /// The list as a run file has it.
    pub fn rules_as_json(&self) -> String {
        serde_json::to_string(self.rules()).expect("a list of texts")
    }
}

/// As the run file spells it.
fn auto<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("auto")
}

/// What becomes of parameters whose name, or whose layer's name, a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingRule {
    /// What becomes of them.
    pub sharding: UnitSharding,
    /// A regular expression, found anywhere in a name, whatever the case.
    pub pattern: String,
}

impl ShardingRule {
    /// The word for what becomes of them.
    pub fn word(sharding: UnitSharding) -> &'static str {
        match sharding {
            UnitSharding::Sharded => "sharded",
            UnitSharding::Persistent => "persistent",
            UnitSharding::Whole => "whole",
        }
    }
}

/// As the run file spells it.
impl fmt::Display for ShardingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Self::word(self.sharding), self.pattern)
    }
}

impl Serialize for ShardingRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
