//! The run file's JSON schema, for editors that complete and check while one types.
//!
//! It says what a file may hold, key by key, and of rules between keys those that need no arithmetic: which keys a family or a type has, and what a
//! run cannot do without. Other rules stay with the resolver.

mod families;
mod numbers;
mod types;

#[cfg(test)]
pub(crate) use self::families::OWN;
#[cfg(test)]
pub(crate) use self::numbers::{NUMBERS, Numbers};

use pipezero_files::json::join;
use schemars::{Schema, json_schema};
use serde_json::{Map, Value, json};

use super::auto_section;
use super::extends::EXTENDS;
use super::keys::{self, F32_NAMES, ForeignKey, Meaning, Off};
use super::raw::RawRun;
use super::section::{KeySpec, Section, SectionSpec};

/// The schema, JSON Schema 2020-12.
pub fn schema() -> Schema {
    let run = RawRun::spec();
    let model = run.sections.iter().find(|(name, _)| *name == "model").map(|(_, model)| model);
    let forms = families::forms(model.expect("a run has a model"));
    let mut schema = section(&run);
    schema.insert("$schema".to_owned(), json!(schemars::consts::meta_schemas::DRAFT2020_12));
    schema.insert("title".to_owned(), json!("pipezero run file"));
    let required = schema.remove("required");
    let whole = json!({ "required": required, "allOf": [{ "anyOf": forms }, { "anyOf": families::has_batch_size() }] });
    // What a file does without that extends another, that one may have.
    schema.insert("anyOf".to_owned(), json!([{ "required": [EXTENDS] }, whole]));
    schema
}

fn section(spec: &SectionSpec) -> Schema {
    let mut properties = Map::new();
    let mut required = types::needed(spec.path).to_vec();
    for key in &spec.keys {
        let mut schema = own_key(key).to_value();
        numbers::narrow(&join(spec.path, key.name), &mut schema);
        properties.insert(key.name.to_owned(), schema);
        if key.default.is_empty() {
            required.push(key.name);
        }
    }
    for (name, inner) in &spec.sections {
        properties.insert((*name).to_owned(), section(inner).to_value());
        if inner.keys.iter().any(|key| key.default.is_empty()) {
            required.push(name);
        }
    }
    properties.extend(foreign_keys(spec.path));
    let mut object = json_schema!({
        "description": spec.about,
        "type": "object",
        "properties": properties,
        "required": required,
        // Keys that begin so are comments.
        "patternProperties": { "^_": true },
        "additionalProperties": false
    });
    if let Some(types) = types::of_section(spec.path) {
        object.insert("anyOf".to_owned(), types);
    }
    if auto_section::is_one(spec.path) {
        json_schema!({ "anyOf": [object, { "const": "auto" }] })
    } else {
        object
    }
}

fn own_key(key: &KeySpec) -> Schema {
    let mut schema = key.schema.clone();
    let mut description = key.about.clone();
    match serde_json::from_str::<Value>(key.default) {
        Ok(default) => {
            schema.insert("default".to_owned(), default);
        }
        Err(_) if key.default.is_empty() => {}
        Err(_) => description += &format!(" Default: {}.", key.default),
    }
    schema.insert("description".to_owned(), json!(description));
    schema
}

/// The keys without effect of the section at `path` that may stand there.
fn foreign_keys(path: &str) -> Map<String, Value> {
    let schema_of = |key: &'static ForeignKey| {
        let at = join(path, key.name);
        let mut schema = foreign_key(key)?;
        if keys::ALSO_ACCEPTED.iter().any(|(key, _)| *key == at) {
            // What stands beside it decides.
            schema = json!({ "description": schema["description"] });
        }
        inside(&at, &mut schema);
        Some((key.name.to_owned(), schema))
    };
    keys::foreign(path).iter().filter_map(schema_of).collect()
}

/// Adds to the schema of the section without effect at `path` which keys it may have.
fn inside(path: &str, schema: &mut Value) {
    let Some(inner) = keys::inner(path) else { return };
    let mut properties = foreign_keys(path);
    for name in inner {
        let mut schema = json!({});
        inside(&join(path, name), &mut schema);
        properties.insert((*name).to_owned(), schema);
    }
    schema["properties"] = Value::Object(properties);
    schema["patternProperties"] = json!({ "^_": true });
    schema["additionalProperties"] = json!(false);
}

/// Hints are any value. What is not offered is the values that switch it off, so that an editor marks any other.
fn foreign_key(key: &ForeignKey) -> Option<Value> {
    match &key.meaning {
        Meaning::Silent => {
            Some(json!({ "description": "The schema of this file, for editors.", "type": "string" }))
        }
        Meaning::Hint(decides) => Some(json!({ "description": format!("Accepted; no effect: {decides}.") })),
        Meaning::NotOffered { offer, off, what, .. } => only(*off, format!("{}: {what}.", offer.title())),
    }
}

/// The values that switch a feature off; `None` where the key itself asks for it.
fn only(off: Off, description: String) -> Option<Value> {
    let object = |key: &str, off: &[Value]| {
        let off: Vec<Value> = off.iter().cloned().chain([json!(null), json!("auto")]).collect();
        json!({ "type": "object", "properties": { key: { "enum": off } } })
    };
    let mut schema = match off {
        Off::Never => return None,
        Off::False => json!({ "enum": [false, null, "auto"] }),
        Off::True => json!({ "enum": [true, null, "auto"] }),
        Off::Number(off) => json!({ "enum": [off, null, "auto"] }),
        Off::Word("auto") => json!({ "enum": ["auto", null] }),
        Off::Word(off) => json!({ "enum": [off, null, "auto"] }),
        Off::F32 => {
            let names = F32_NAMES.iter().map(|&name| json!(name));
            json!({ "enum": names.chain([json!(null), json!("auto")]).collect::<Vec<_>>() })
        }
        Off::NotPositive => {
            json!({ "anyOf": [{ "enum": [null, "auto"] }, { "type": "number", "maximum": 0 }] })
        }
        Off::NoneEnabled => json!({ "type": ["object", "null"] }),
        Off::Null => json!({ "enum": [null, "auto"] }),
        Off::Disabled => {
            json!({ "anyOf": [{ "enum": [false, null, "auto"] }, object("enabled", &[json!(false)])] })
        }
        Off::NoDegree(degree) => {
            json!({ "anyOf": [{ "enum": [null, "auto"] }, object(degree, &[json!(0), json!(1)])] })
        }
        Off::NoDevice => json!({ "anyOf": [{ "enum": [null, "auto"] }, object("device", &[json!("none")])] }),
        Off::Empty => json!({ "anyOf": [{ "enum": [null, "auto"] }, { "type": "array", "maxItems": 0 }] }),
    };
    schema["description"] = json!(description);
    Some(schema)
}
