//! The schema accepts and refuses what the program does, as far as it says it: the program is asked.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::raw::RawRun;
use crate::schema::{NUMBERS, Numbers, OWN};
use crate::section::Section;
use crate::{HostGpu, Resources, RunFile, schema};

/// What of JSON Schema the schema uses; any other word fails, so that nothing goes unchecked.
fn conforms(value: &Value, schema: &Value) -> bool {
    if let Value::Bool(allowed) = schema {
        return *allowed;
    }
    let words = schema.as_object().unwrap();
    words.iter().all(|(word, rule)| match word.as_str() {
        // The second is looked at with `additionalProperties`, the only way in which it is used.
        "$schema" | "title" | "description" | "default" | "patternProperties" => true,
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| is_of_type(value, name)),
            name => is_of_type(value, name),
        },
        "pattern" => value
            .as_str()
            .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > rule.as_f64().unwrap()),
        "exclusiveMaximum" => value.as_f64().is_none_or(|number| number < rule.as_f64().unwrap()),
        "allOf" => rule.as_array().unwrap().iter().all(|part| conforms(value, part)),
        "enum" => rule.as_array().unwrap().iter().any(|choice| equal(choice, value)),
        "const" => equal(rule, value),
        "anyOf" => rule.as_array().unwrap().iter().any(|choice| conforms(value, choice)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| conforms(item, rule))),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
        "required" => value.as_object().is_none_or(|entries| {
            rule.as_array().unwrap().iter().all(|key| entries.contains_key(key.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|entries| {
            entries.iter().all(|(key, value)| rule.get(key).is_none_or(|schema| conforms(value, schema)))
        }),
        "additionalProperties" => {
            value.as_object().is_none_or(|entries| entries.keys().all(|key| is_known(key, words)))
        }
        other => panic!("the word {other} is not checked"),
    })
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

/// Whether a key is a property, or begins as comments do.
fn is_known(key: &str, words: &Map<String, Value>) -> bool {
    let comments = &serde_json::json!({ "^_": true });
    let patterns = words.get("patternProperties");
    assert!(patterns.is_none_or(|patterns| patterns == comments), "{patterns:?}");
    words["properties"].get(key).is_some() || patterns.is_some() && key.starts_with('_')
}

/// Numbers are equal however they are spelled.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

#[test]
fn the_schema_accepts_the_examples_and_rejects_slips() {
    let schema = schema().to_value();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let (mut num_engines, mut num_extending) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        // The engines of a master file are run files.
        match value.get("engines").and_then(Value::as_object) {
            None if value.get("extends").is_some() => {
                num_extending += 1;
                assert!(conforms(&value, &schema), "{}", path.display());
                assert!(!conforms(&with(&value, "zero_optimization.stages", json!(2)), &schema));
            }
            None => accepts_and_rejects_slips(&schema, &value, &path),
            Some(engines) => {
                engines.values().for_each(|engine| accepts_and_rejects_slips(&schema, engine, &path));
                num_engines += engines.len();
            }
        }
    }
    assert_eq!((num_engines, num_extending), (4, 2));
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

/// Small runs, one of each family and one that names no optional section.
fn run_of(family: &str) -> Value {
    let own = match family {
        "gpt2" => json!({ "hidden_size": 64, "num_attention_heads": 4 }),
        "llama" => json!({ "hidden_size": 64, "num_attention_heads": 4 }),
        "mlp" => json!({ "hidden_size": 64 }),
        "timed" => json!({ "parameters_per_layer": 64, "activation_elements": 64, "forward_ms": 1.0 }),
        other => panic!("{other}"),
    };
    let mut model = json!({ "family": family, "num_layers": 4, "seq_length": 64 });
    model.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    let mut run =
        json!({ "model": model, "train_batch_size": 8, "steps": 10, "zero_optimization": { "stage": 3 } });
    if family != "timed" {
        run["data"] = json!({ "text": "never-read.txt" });
    }
    run
}

/// The run with `value` at a path; what it lacks on the way is added.
fn with(run: &Value, path: &str, value: Value) -> Value {
    let mut run = run.clone();
    let mut at = &mut run;
    for key in path.split('.') {
        at = &mut at[key];
    }
    *at = value;
    run
}

/// What the program says against a run; empty where it takes it.
fn faults(run: &Value) -> String {
    let resources = Resources { cores: 2, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };
    let resolved = RunFile::parse("run.json", &run.to_string()).and_then(|file| file.resolve(resources));
    resolved.err().map(|errors| errors.to_string()).unwrap_or_default()
}

/// A family whose model has this key.
fn family_of(path: &str) -> &'static str {
    let key = path.strip_prefix("model.").and_then(|rest| rest.split('.').next());
    OWN.iter().find(|(own, _)| Some(*own) == key).map_or("gpt2", |(_, families)| families[0])
}

/// Just outside and just inside.
fn beyond_and_within(numbers: Numbers) -> (Vec<Value>, Vec<Value>) {
    match numbers {
        Numbers::AtLeastOne => (vec![json!(0), json!(-1)], vec![json!(1)]),
        Numbers::NotNegative => (vec![json!(-1), json!(-1e-9)], vec![json!(0), json!(1)]),
        Numbers::Positive => (vec![json!(0), json!(-1)], vec![json!(1e-6), json!(2)]),
        Numbers::BelowOne => (vec![json!(-0.1), json!(1)], vec![json!(0), json!(0.5)]),
        Numbers::Between(first, last) => {
            (vec![json!(first - 1.0), json!(last + 1.0)], vec![json!(first), json!(last)])
        }
        Numbers::AtMost(last) => (vec![json!(last + 1)], vec![json!(0), json!(last)]),
        Numbers::Above(below) => (vec![json!(below), json!(below - 1.0)], vec![json!(below + 1.0)]),
    }
}

/// What the program refuses of each bound the schema does too, and values within it pass the schema.
#[test]
fn numbers_that_the_schema_refuses_are_those_that_the_program_refuses() {
    let schema = schema().to_value();
    let spec = RawRun::spec();
    for (path, numbers) in NUMBERS {
        let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
        let sections = spec.all();
        let section = sections.iter().find(|found| found.path == section).expect("a section");
        assert!(section.keys.iter().any(|key| key.name == name), "{path}");
        let written = |number: Value| match *path {
            "data.seq_lengths" | "parallel.partition" => json!([number]),
            "optimizer.params.betas" => json!([number, number]),
            _ => number,
        };
        let mut run = run_of(family_of(path));
        if path.starts_with("comm.links.") && *path != "comm.links.near.gb_per_s" {
            run = with(&run, "comm.links.near.gb_per_s", json!(1));
        }
        if path.starts_with("scheduler.") {
            let cosine = path.ends_with("ratio");
            let name = if cosine { "WarmupCosineLR" } else { "WarmupDecayLR" };
            run = with(&run, "scheduler.type", json!(name));
        }
        match *path {
            "parallel.group_size" => {
                run = with(&run, "parallel", json!({ "schedule": "interleaved", "virtual_stages": 2 }));
            }
            "optimizer.params.momentum" => run = with(&run, "optimizer.type", json!("SGD")),
            "train_micro_batch_size_per_gpu" | "gradient_accumulation_steps" => {
                run = with(&run, "train_micro_batch_size_per_gpu", json!(1));
                run.as_object_mut().unwrap().remove("train_batch_size");
            }
            _ => {}
        }
        let (beyond, within) = beyond_and_within(*numbers);
        for number in beyond {
            let run = with(&run, path, written(number.clone()));
            assert!(!conforms(&run, &schema), "{path} {number}");
            let faults = faults(&run);
            assert!(faults.contains(&format!("`{path}")), "{path} {number}: {faults}");
        }
        for number in within {
            assert!(conforms(&with(&run, path, written(number.clone())), &schema), "{path} {number}");
        }
    }
}

/// Every key of `model`, in each family: where the program says that it belongs to another, the schema refuses it, and nowhere else.
#[test]
fn keys_of_other_families_are_refused_by_schema_and_program_alike() {
    let schema = schema().to_value();
    let spec = RawRun::spec();
    let (_, model) = spec.sections.iter().find(|(name, _)| *name == "model").expect("a model");
    let value = |name: &str| match name {
        "rope_scaling" => json!({ "rope_type": "default" }),
        "hidden_size" => json!(64),
        "dropout" => json!(0),
        "norm_epsilon" | "init_std" => json!(0.1),
        "tie_embeddings" | "add_qkv_bias" | "add_proj_bias" | "add_mlp_bias" | "qk_layernorm" => json!(true),
        "vocab_size" => json!(256),
        _ => json!(2),
    };
    let names = model.keys.iter().map(|key| key.name).chain(model.sections.iter().map(|(name, _)| *name));
    let mut num_refused = 0;
    for name in names.filter(|name| !["family", "from", "num_layers", "seq_length"].contains(name)) {
        for family in ["gpt2", "llama", "mlp", "timed"] {
            let run = with(&run_of(family), &format!("model.{name}"), value(name));
            let faults = faults(&run);
            let is_foreign = faults.contains("it belongs to family");
            assert!(is_foreign || faults.is_empty(), "{family} {name}: {faults}");
            assert_eq!(conforms(&run, &schema), !is_foreign, "{family} {name}: {faults}");
            num_refused += usize::from(is_foreign);
        }
    }
    assert!(num_refused > 40, "{num_refused}");
}

/// Files that lack something, or have what belongs to another choice: path, value (null takes it away), and what else is written first.
#[test]
fn what_is_missing_or_belongs_to_another_choice_is_refused_by_schema_and_program_alike() {
    let schema = schema().to_value();
    let gone = Value::Null;
    let cases = [
        ("model", gone.clone()),
        ("data", gone.clone()),
        ("steps", gone.clone()),
        ("train_batch_size", gone.clone()),
        ("train_batch_size", json!("auto")),
        ("model.family", gone.clone()),
        ("model.num_layers", gone.clone()),
        ("model.num_attention_heads", gone),
        ("model.dropout", json!(1.0)),
        ("data.tokens", json!("other.bin")),
        ("parallel.group_size", json!(4)),
        ("zero_optimization.unit_layers", json!(1.5)),
        ("zero_optimization.unit_layers", json!(0)),
        ("optimizer.params.momentum", json!(0.9)),
        ("optimizer", json!({ "type": "SGD", "params": { "eps": 1e-8 } })),
        ("optimizer", json!({ "type": "Adam", "params": { "adam_w_mode": false } })),
        ("scheduler", json!({ "params": { "warmup_num_steps": 10 } })),
        ("scheduler", json!({ "type": "WarmupLR", "params": { "total_num_steps": 10 } })),
        ("scheduler", json!({ "type": "WarmupCosineLR", "params": { "warmup_max_lr": 0.1 } })),
    ];
    for (path, value) in cases {
        let mut run = with(&run_of("gpt2"), path, value.clone());
        if value.is_null() {
            let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
            let section = if section.is_empty() { &mut run } else { &mut run[section] };
            section.as_object_mut().unwrap().remove(key);
        }
        assert!(!faults(&run).is_empty(), "{path} {value}");
        assert!(!conforms(&run, &schema), "{path} {value}");
    }
    let sound = [
        ("_comment", json!("of the whole file")),
        ("model._comment", json!("of a section")),
        ("zero_optimization.unit_layers", json!(0.5)),
        ("optimizer", json!({ "type": "AdamW", "params": { "adam_w_mode": false } })),
        ("optimizer", json!({ "type": "SGD", "params": { "momentum": 0.9 } })),
        ("data_types.param_dtype", json!("fp32")),
        ("parallel", json!({ "schedule": "interleaved", "virtual_stages": 2, "group_size": 4 })),
        ("scheduler", json!({ "type": "WarmupCosineLR", "params": { "cos_min_ratio": 0.1 } })),
    ];
    for (path, value) in sound {
        let run = with(&run_of("gpt2"), path, value.clone());
        assert_eq!(faults(&run), "", "{path} {value}");
        assert!(conforms(&run, &schema), "{path} {value}");
    }
}
