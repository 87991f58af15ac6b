//! The table of the files in which the values of a run are written.

use pipezero_config::{Run, ValueOrigin};
use serde_json::{Map, Value};

use super::table::Table;

/// The key of a run's JSON below which each key has its file and line.
const ORIGINS: &str = "origins";

/// A table of keys, each with its file and line; empty for a file that extends no other.
pub(super) fn text_of(origins: &[ValueOrigin], width: usize) -> String {
    if origins.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["value", "from"]);
    for origin in origins {
        table.row(&origin.key, [origin.to_string()]);
    }
    format!("\n{table:width$}")
}

/// A run as JSON, with the origins of its values if it has several files.
pub(super) fn with_origins(run: &Run, origins: &[ValueOrigin]) -> Value {
    let mut json = serde_json::to_value(run).expect("a run has string keys and finite depth");
    if !origins.is_empty() {
        let origins: Map<String, Value> =
            origins.iter().map(|origin| (origin.key.clone(), origin.to_string().into())).collect();
        json[ORIGINS] = Value::Object(origins);
    }
    json
}
