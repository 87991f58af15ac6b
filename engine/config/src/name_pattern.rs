//! An entry of `train_only`: a regular expression of names of layers and parameters.

use pipezero_files::json::{Node, Value};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::{Kind, rule};
use super::pattern;
use super::place::Place;
use super::resolved::NamePattern;

/// What is wrong with an empty pattern.
const EMPTY: &str = "it names nothing, and would be found in every name";

impl Kind for NamePattern {
    const MOST_IN_LIST: usize = pattern::MOST_IN_LIST;

    fn expected() -> String {
        "a regular expression of names of layers or parameters".to_owned()
    }

    fn example() -> String {
        "\"wte|lm_head\"".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }

    fn read(node: &Node) -> Option<Self> {
        let Value::String(text) = &node.value else { return None };
        Self::new(text).ok().filter(|_| !text.is_empty())
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let Value::String(text) = &node.value else { return None };
        let broken = if text.is_empty() { EMPTY.to_owned() } else { pattern::broken_rule(text)? };
        Some(rule(place, &format!("\"{text}\""), &broken, "write one such as \"lm_head\""))
    }
}
