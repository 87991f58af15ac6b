//! The value of `parallel.partition`: `"balanced"`, DeepSpeed's words, of which one carries a pattern, or a list.

use pipezero_files::json::{Node, Value, shorten};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::Kind;
use super::pattern;
use super::place::Place;
use super::resolved::PartitionConfig;
use super::words::{Unoffered, one_of, unknown_word};

const OFFERED: &[&str] = &["balanced", "uniform", "parameters", "type:REGEX"];

/// DeepSpeed's others, which measure or guess where `"balanced"` computes.
const UNOFFERED: Unoffered = Unoffered { later: &[], never: &["profile", "best"] };

impl Kind for PartitionConfig {
    fn expected() -> String {
        format!("{} or {}", one_of(OFFERED), Vec::<usize>::expected())
    }

    fn example() -> String {
        "\"balanced\"".to_owned()
    }

    fn schema() -> Schema {
        let words = json_schema!({
            "anyOf": [
                { "enum": ["balanced", "uniform", "parameters"] },
                { "type": "string", "pattern": "^type:." }
            ]
        });
        json_schema!({ "anyOf": [words, Vec::<usize>::schema()] })
    }

    fn read(node: &Node) -> Option<Self> {
        let Value::String(word) = &node.value else { return Vec::read(node).map(Self::Manual) };
        match word.as_str() {
            "balanced" => Some(Self::Balanced),
            "uniform" => Some(Self::Uniform),
            "parameters" => Some(Self::Parameters),
            word => {
                let pattern = word.strip_prefix("type:")?;
                pattern_fault(pattern).is_none().then(|| Self::Type(pattern.to_owned()))
            }
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let Value::String(word) = &node.value else { return Vec::<usize>::fault(node, place) };
        let problem = match word.strip_prefix("type:") {
            Some(pattern) => pattern_fault(pattern)?,
            None => unknown_word(word, OFFERED, &UNOFFERED),
        };
        Some((place.clone(), problem))
    }
}

/// What is wrong with a pattern; whether it matches a layer is known with the model.
fn pattern_fault(pattern: &str) -> Option<Problem> {
    let (rule, repair) = if pattern.is_empty() {
        let rule = "it names no layers: a regular expression must follow the colon";
        (rule.to_owned(), "use one such as \"type:block\"")
    } else {
        (pattern::broken_rule(pattern)?, "correct it, or use \"balanced\"")
    };
    let value = format!("\"type:{}\"", shorten(pattern));
    Some(Problem::Rule { value, rule, repair: repair.to_owned() })
}
