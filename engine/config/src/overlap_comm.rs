//! How `overlap_comm` is written: true, false, `"auto"`, or null for its default, as in DeepSpeed.

use pipezero_files::json::{Node, Value};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::{Auto, Kind};
use super::place::Place;
use super::resolved::OverlapComm;

impl Kind for OverlapComm {
    fn expected() -> String {
        Auto::<bool>::expected()
    }

    fn example() -> String {
        Auto::<bool>::example()
    }

    fn schema() -> Schema {
        json_schema!({ "enum": [true, false, "auto", null] })
    }

    fn read(node: &Node) -> Option<Self> {
        if matches!(node.value, Value::Null) {
            return Some(Self::default());
        }
        Auto::<bool>::read(node).map(|overlaps| match overlaps {
            Auto::Value(true) => Self::True,
            Auto::Value(false) => Self::False,
            Auto::Auto => Self::Auto,
        })
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        Auto::<bool>::fault(node, place)
    }
}
