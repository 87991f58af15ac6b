//! The JSON schema of a master file, for editors that complete and check while one types.

use schemars::Schema;
use serde_json::{Value, json};

use crate::schema::schema as of_run_files;

/// The schema, JSON Schema 2020-12. What is missing in an engine is left to `check`: a teacher needs less than an engine that is trained.
pub fn master_schema() -> Schema {
    let mut engine = of_run_files();
    for of_trained in ["$schema", "title", "anyOf"] {
        engine.remove(of_trained);
    }
    let names = json!({ "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$" });
    let name = json!({ "description": "The name of an engine.", "type": "string" });
    let schema = json!({
        "$schema": schemars::consts::meta_schemas::DRAFT2020_12,
        "title": "pipezero master file",
        "description": "Several models in one run: engines, each with a run file, and what is done with them.",
        "type": "object",
        "properties": {
            "$schema": { "type": "string" },
            "engines": {
                "description": "The engines by name.",
                "type": "object",
                "propertyNames": names,
                "minProperties": 1,
                "additionalProperties": { "anyOf": [
                    { "description": "The path of its run file, from the folder of this file.", "type": "string" },
                    { "$ref": "#/$defs/engine" }
                ] }
            },
            "tasks": {
                "description": "The tasks by name.",
                "type": "object",
                "propertyNames": names,
                "minProperties": 1,
                "additionalProperties": { "anyOf": [train(&name), distill(&name)] }
            }
        },
        "required": ["engines", "tasks"],
        "patternProperties": { "^_": true },
        "additionalProperties": false,
        "$defs": { "engine": engine.to_value() }
    });
    Schema::try_from(schema).expect("an object is a schema")
}

fn train(name: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "train": {
                "description": "Trains these engines, each for itself.",
                "type": "array", "items": name, "minItems": 1, "uniqueItems": true
            },
            "init": init(),
            "ranks": ranks()
        },
        "required": ["train"],
        "additionalProperties": false
    })
}

fn distill(name: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "distill": {
                "description": "Trains an engine on the logits of another.",
                "type": "object",
                "properties": {
                    "student": name,
                    "teacher": name,
                    "temperature": { "type": "number", "minimum": 0.001, "maximum": 20 },
                    "alpha": { "type": "number", "minimum": 0, "maximum": 1 }
                },
                "required": ["student", "teacher", "temperature", "alpha"],
                "additionalProperties": false
            },
            "init": init(),
            "ranks": ranks()
        },
        "required": ["distill"],
        "additionalProperties": false
    })
}

fn init() -> Value {
    json!({
        "description": "The weights with which engines begin, by their names: run directories, checkpoints, or folders of transformers.",
        "type": "object",
        "additionalProperties": { "type": "string" }
    })
}

fn ranks() -> Value {
    json!({
        "description": "Which ranks of the job engines have, by their names: the first and the last, or the only one. One that is not named begins at rank 0.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": { "type": "string", "pattern": "^[0-9]+(-[0-9]+)?$" }
    })
}
