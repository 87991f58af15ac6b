//! What is generated is up to date, and what is shipped loads. `UPDATE_EXPECT=1` writes the generated files anew.

use std::path::Path;

use expect_test::expect_file;
use serde_json::Value;

use crate::{GivenFile, HostGpu, NoticeKind, Resources, RunFile, master_schema, reference, schema};

#[test]
fn the_schemas_are_up_to_date() {
    let text = |schema| serde_json::to_string_pretty(&schema).unwrap() + "\n";
    expect_file!["../../../../docs/run.schema.json"].assert_eq(&text(schema()));
    expect_file!["../../../../docs/master.schema.json"].assert_eq(&text(master_schema()));
}

#[test]
fn the_key_tables_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-file.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = text.find("<!-- Generated").expect("the tables follow their marker");
    let end = text[marker..].find("-->").expect("a comment ends") + marker + 3;
    expect_file!["../../../../docs/run-file.md"].assert_eq(&format!("{}\n\n{}", &text[..end], reference()));
}

/// A run file, or those of the engines of a master file, with names.
fn run_files(path: &Path, name: String) -> Vec<(String, RunFile)> {
    match GivenFile::load(path).unwrap_or_else(|errors| panic!("{errors}")) {
        GivenFile::Run(file) => vec![(name, file)],
        GivenFile::Master(master) => {
            let file = |engine: &str| master.engine(engine).unwrap_or_else(|errors| panic!("{errors}")).file;
            master.engines().map(|engine| (format!("{name}: {engine}"), file(engine))).collect()
        }
    }
}

/// Every example is valid, and only DeepSpeed files have keys without effect.
#[test]
fn every_example_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (name, file) in run_files(&path, name) {
            let resources =
                Resources { cores: 2, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };
            let (run, notices) = file.resolve(resources).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(run.data.text.iter().all(|path| path.is_absolute()), "{name}");
            let num_of =
                |kinds: &[NoticeKind]| notices.iter().filter(|notice| kinds.contains(&notice.kind())).count();
            let num_hints = num_of(&[NoticeKind::Auto, NoticeKind::Hint]);
            found.push((name, num_hints, num_of(&[NoticeKind::Warning])));
        }
    }
    found.sort();
    // Hints and warnings of each.
    let expected = [
        ("bf16.json", 0, 0),
        ("checkpointing.json", 0, 0),
        ("deepspeed-zero1.json", 8, 1),
        ("deepspeed-zero3-auto.json", 20, 0),
        ("distill.json: large", 0, 0),
        ("distill.json: small", 0, 0),
        ("fp16.json", 0, 0),
        ("gpt2-124m.json", 1, 0),
        ("interleaved.json", 0, 0),
        ("llama-bpe.json", 1, 0),
        ("pair.json: deep", 0, 0),
        ("pair.json: wide", 0, 0),
        ("quickstart.json", 1, 0),
        ("seed-48-layers.json", 0, 0),
        ("timed-64.json", 0, 0),
        ("timed-overlap.json", 0, 0),
        ("zero1-pipeline.json", 0, 0),
        ("zero2-data.json", 0, 0),
    ];
    assert_eq!(found, expected.map(|(name, hints, warnings)| (name.to_owned(), hints, warnings)));
}

/// What of JSON Schema the schema uses; any other word fails, so that nothing goes unchecked.
fn conforms(value: &Value, schema: &Value) -> bool {
    let words = schema.as_object().unwrap();
    words.iter().all(|(word, rule)| match word.as_str() {
        "$schema" | "title" | "description" | "default" => true,
        "type" => match rule.as_str().unwrap() {
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("type {other}"),
        },
        "pattern" => value
            .as_str()
            .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "enum" => rule.as_array().unwrap().iter().any(|choice| equal(choice, value)),
        "const" => equal(rule, value),
        "anyOf" => rule.as_array().unwrap().iter().any(|choice| conforms(value, choice)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| conforms(item, rule))),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
        "required" => rule.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" => value.as_object().is_none_or(|entries| {
            entries.iter().all(|(key, value)| rule.get(key).is_none_or(|schema| conforms(value, schema)))
        }),
        "additionalProperties" => value
            .as_object()
            .is_none_or(|entries| entries.keys().all(|key| words["properties"].get(key).is_some())),
        other => panic!("the word {other} is not checked"),
    })
}

/// Numbers are equal however they are spelled.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

#[test]
fn the_schema_accepts_the_examples_and_rejects_slips() {
    let schema = schema().to_value();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut num_engines = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        // The engines of a master file are run files.
        match value.get("engines").and_then(Value::as_object) {
            None => accepts_and_rejects_slips(&schema, &value, &path),
            Some(engines) => {
                engines.values().for_each(|engine| accepts_and_rejects_slips(&schema, engine, &path));
                num_engines += engines.len();
            }
        }
    }
    assert_eq!(num_engines, 4);
}

fn accepts_and_rejects_slips(schema: &Value, value: &Value, path: &Path) {
    assert!(conforms(value, schema), "{}", path.display());
    for (pointer, slip) in [("/model/num_layers", "\"12\""), ("/model/family", "\"gpt3\""), ("/steps", "-1")]
    {
        let mut value = value.clone();
        *value.pointer_mut(pointer).unwrap() = serde_json::from_str(slip).unwrap();
        assert!(!conforms(&value, schema), "{pointer} {slip}");
    }
    let mut unknown = value.clone();
    unknown["parallel"]["pipelines"] = 2.into();
    assert!(!conforms(&unknown, schema));
    let mut offload = value.clone();
    offload["zero_optimization"]["offload_param"] = serde_json::json!({ "device": "cpu" });
    assert!(!conforms(&offload, schema));
    // The timed family needs no text, and its times instead.
    let mut missing = value.clone();
    let is_timed = missing["model"]["family"] == "timed";
    let (section, key) = if is_timed { ("/model", "forward_ms") } else { ("", "data") };
    missing.pointer_mut(section).unwrap().as_object_mut().unwrap().remove(key);
    assert!(!conforms(&missing, schema));
}
