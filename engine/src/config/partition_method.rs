//! The words of `parallel.partition`: DeepSpeed's, of which one carries a pattern, and `"balanced"`.

use schemars::{Schema, json_schema};

use super::kind::Kind;
use crate::files::json::{Node, Value};

/// How layers are split into stages. As for other words, reading accepts every string; `resolve` says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartitionMethod {
    Balanced,
    Uniform,
    Parameters,
    /// `"type:REGEX"`.
    Type(String),
    Other(String),
}

impl PartitionMethod {
    /// The words that are offered.
    pub(crate) const OFFERED: &[&str] = &["balanced", "uniform", "parameters", "type:REGEX"];
}

impl Kind for PartitionMethod {
    fn expected() -> String {
        super::words::one_of(Self::OFFERED)
    }

    fn schema() -> Schema {
        json_schema!({
            "anyOf": [
                { "enum": ["balanced", "uniform", "parameters"] },
                { "type": "string", "pattern": "^type:." }
            ]
        })
    }

    fn read(node: &Node) -> Option<Self> {
        let Value::String(word) = &node.value else { return None };
        Some(match word.as_str() {
            "balanced" => Self::Balanced,
            "uniform" => Self::Uniform,
            "parameters" => Self::Parameters,
            word => match word.strip_prefix("type:") {
                Some(pattern) => Self::Type(pattern.to_owned()),
                None => Self::Other(word.to_owned()),
            },
        })
    }
}
