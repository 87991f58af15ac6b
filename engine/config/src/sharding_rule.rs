//! An entry of `zero_optimization.parameters`: what becomes of parameters whose name, or whose layer's name, a pattern matches.

use pipezero_files::json::{Node, Value};
use pipezero_partition::UnitSharding;
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::{Kind, rule};
use super::pattern;
use super::place::Place;
use super::resolved::ShardingRule;
use super::words::one_of;

const FORMS: &[&str] = &["sharded:REGEX", "persistent:REGEX", "whole:REGEX"];

impl Kind for ShardingRule {
    const MOST_IN_LIST: usize = pattern::MOST_IN_LIST;

    fn expected() -> String {
        one_of(FORMS)
    }

    fn example() -> String {
        "\"whole:wte|lm_head\"".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^(sharded|persistent|whole):." })
    }

    fn read(node: &Node) -> Option<Self> {
        let Value::String(text) = &node.value else { return None };
        let (kind, pattern) = text.split_once(':')?;
        let sharding = sharding(kind)?;
        let is_pattern = !pattern.is_empty() && pattern::regex(pattern).is_ok();
        is_pattern.then(|| Self { sharding, pattern: pattern.to_owned() })
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let Value::String(text) = &node.value else { return None };
        let value = format!("\"{text}\"");
        let form = format!(
            "it must be {}, with a regular expression of names of parameters or layers",
            one_of(FORMS)
        );
        Some(match text.split_once(':') {
            Some((kind, pattern)) if sharding(kind).is_some() && !pattern.is_empty() => {
                rule(place, &value, &pattern::broken_rule(pattern)?, "correct it")
            }
            _ => rule(place, &value, &form, "write one such as \"whole:wte|lm_head\""),
        })
    }
}

/// What a word says becomes of layers.
fn sharding(word: &str) -> Option<UnitSharding> {
    UnitSharding::ALL.into_iter().find(|&sharding| ShardingRule::word(sharding) == word)
}
