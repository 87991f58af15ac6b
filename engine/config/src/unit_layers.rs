//! How `unit_layers` is written: 0.5, a whole number, or `"stage"`.

use std::num::NonZeroUsize;

use pipezero_files::json::{Node, Value};
use pipezero_partition::UnitLayers;
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::{Kind, among_others, rule, unquoted};
use super::place::Place;
use super::whole_number::MAX_COUNT;
use super::words::{Unoffered, unknown_word};

impl Kind for UnitLayers {
    fn expected() -> String {
        "a number or \"stage\"".to_owned()
    }

    fn example() -> String {
        "1".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "enum": [0.5, "stage"] }] })
    }

    fn read(node: &Node) -> Option<Self> {
        if let Value::String(word) = &node.value {
            return (word == "stage").then_some(Self::Stage);
        }
        match f64::read(node)? {
            0.5 => Some(Self::Half),
            layers if layers.fract() == 0.0 && (1.0..=MAX_COUNT).contains(&layers) => {
                NonZeroUsize::new(layers as usize).map(Self::Blocks)
            }
            _ => None,
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        if let Value::String(word) = &node.value {
            let unoffered = Unoffered { later: &[], never: &[] };
            let fault = (place.clone(), unknown_word(word, &["stage"], &unoffered));
            return unquoted::<Self>(node).is_none().then(|| among_others(fault, Self::expected()));
        }
        let text = node.number()?;
        let Some(layers) = f64::read(node) else { return f64::fault(node, place) };
        Some(if layers > MAX_COUNT {
            rule(place, text, "no stage has so many blocks", "use \"stage\"")
        } else {
            let repair = "use 0.5, 1 or a larger whole number";
            rule(place, text, "a unit is half a block or whole blocks", repair)
        })
    }
}
