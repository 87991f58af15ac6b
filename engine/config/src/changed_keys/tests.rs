use std::collections::BTreeSet;

use expect_test::expect;
use pipezero_files::json::join;
use serde_json::{Value, json};

use super::table::TABLE;
use super::{ChangedKey, Effect, found_at};
use crate::RunFile;
use crate::raw::RawRun;
use crate::section::Section;
use crate::testing::{RESOURCES, file};

/// What a task of a master file says, or a key says of a file that it names.
const NO_KEYS: [&str; 3] = ["loss", "parallel.schedule.file", "ranks"];

/// A key that is added to the run file has to be added to the table.
#[test]
fn every_key_of_the_run_file_has_one_row() {
    let run = RawRun::spec();
    let sections = run.all().into_iter();
    let mut keys: Vec<String> = sections
        .flat_map(|section| section.keys.iter().map(|key| join(section.path, key.name)))
        .chain(NO_KEYS.map(str::to_owned))
        .collect();
    let mut rows: Vec<&str> = TABLE.iter().map(|row| row.key).collect();
    keys.sort_unstable();
    rows.sort_unstable();
    assert_eq!(rows, keys);
}

const LLAMA: &str =
    r#""family": "llama", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16"#;

fn resolved(changes: &[(&str, &str)]) -> Value {
    let run = RunFile::parse("run.json", &file(changes)).unwrap().resolve(RESOURCES).unwrap().0;
    let text = serde_json::to_string(&run).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn llama(more: &str) -> String {
    format!("{{{LLAMA}, {more}}}")
}

/// Runs that between them have every value that a resolved run may have.
fn runs() -> Vec<Value> {
    let rope = |rope: &str| {
        let rope =
            format!("\"rope_scaling\": {{{rope}, \"factor\": 8, \"original_max_position_embeddings\": 8}}");
        resolved(&[("model", &llama(&rope))])
    };
    let timed = r#"{"family": "timed", "num_layers": 4, "seq_length": 16, "parameters_per_layer": 8, "activation_elements": 8, "forward_ms": 1}"#;
    vec![
        resolved(&[]),
        resolved(&[("model", timed)]),
        rope(r#""rope_type": "llama3""#),
        rope(r#""rope_type": "yarn""#),
        resolved(&[
            ("optimizer", r#"{"type": "SGD", "params": {"momentum": 0.9}}"#),
            ("fp16", r#"{"enabled": true}"#),
        ]),
        resolved(&[("scheduler", r#"{"type": "WarmupLR"}"#), ("checkpoint", r#"{"minutes": 0.5}"#)]),
        resolved(&[("scheduler", r#"{"type": "WarmupDecayLR"}"#)]),
        resolved(&[("scheduler", r#"{"type": "WarmupCosineLR"}"#)]),
        resolved(&[("comm", r#"{"links": {"near": {"gb_per_s": 25}}}"#), ("parallel", r#"{"data": 2}"#)]),
        resolved(&[("activation_checkpointing", r#"{"enabled": true, "every_layers": 1}"#)]),
        resolved(&[
            ("zero_optimization", r#"{"stage": 3, "sharding": "auto"}"#),
            ("parallel", r#"{"data": 2}"#),
        ]),
        resolved(&[("parallel", r#"{"pipeline": 2, "schedule": "interleaved", "virtual_stages": 2}"#)]),
        resolved(&[("parallel", r#"{"pipeline": 2, "partition": [1, 3]}"#)]),
    ]
}

/// The places of all numbers, words and lists in a run.
fn leaves(place: &str, value: &Value, leaves: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| self::leaves(&join(place, key), value, leaves));
        }
        _ => leaves.push(place.to_owned()),
    }
}

/// A value that is added to the resolved run has to be added to the table too; and a place that no run has is a mistake in it.
#[test]
fn every_value_of_a_resolved_run_has_a_row() {
    let runs = runs();
    for run in &runs {
        let mut all = Vec::new();
        leaves("", run, &mut all);
        assert!(all.len() > 50);
        for leaf in all {
            // Another value there is seen.
            let mut other = run.clone();
            let at = format!("/{}", leaf.replace('.', "/"));
            *other.pointer_mut(&at).unwrap() = json!(0.625);
            assert!(!ChangedKey::between(run, &other).is_empty(), "no row sees a change of `{leaf}`");
        }
    }
    let never = TABLE.iter().filter(|row| !runs.iter().any(|run| found_at(run, row.at).is_some()));
    let never: BTreeSet<&str> = never.map(|row| row.key).collect();
    // Those that are absent unless they are written.
    let expected = [
        "comm.port",
        "comm.ranks_per_node",
        "data.end_token",
        "data.tokenizer",
        "loss",
        "memory",
        "model.from",
        "parallel.schedule.file",
        "ranks",
        "train_only",
    ];
    assert_eq!(never.into_iter().collect::<Vec<_>>(), expected);
}

/// What is said of a change from one run to another.
fn said(before: &[(&str, &str)], now: &[(&str, &str)]) -> String {
    let changed = ChangedKey::between(&resolved(before), &resolved(now));
    let line = |changed: &ChangedKey| {
        let effect = match changed.effect {
            Effect::None => "plain",
            Effect::Learned(_) => "learned",
            Effect::Rate => "rate",
            Effect::Data(_) => "data",
            Effect::Content { .. } => "content",
        };
        format!("{effect}: {changed}\n")
    };
    changed.iter().map(line).collect()
}

#[test]
fn changes_are_named_with_both_values_and_their_kind() {
    let fp16 = ("fp16", r#"{"enabled": true}"#);
    let cases: [(&[(&str, &str)], &[(&str, &str)]); 9] = [
        (&[], &[("seed", "0"), ("gradient_accumulation_steps", "1")]),
        (&[], &[("seed", "7"), ("steps", "20"), ("threads", "2")]),
        (&[], &[("model", &llama(r#""dropout": 0"#)), ("train_batch_size", "4")]),
        (&[], &[("data", r#"{"text": "b.md", "document_attention": true}"#)]),
        (&[("bf16", r#"{"enabled": true}"#)], &[fp16]),
        (&[fp16], &[("fp16", r#"{"enabled": true, "loss_scale": 128}"#)]),
        (&[], &[("scheduler", r#"{"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2}}"#)]),
        (&[], &[("checkpoint", r#"{"minutes": 0.1, "keep": 3}"#), ("comm", r#"{"timeout_s": 0.5}"#)]),
        (
            &[("comm", r#"{"links": {"near": {"gb_per_s": 25, "latency_us": 3}}}"#)],
            &[("comm", r#"{"links": {"near": {"gb_per_s": 0.1, "latency_us": 4.5}}}"#)],
        ),
    ];
    let found: String = cases.iter().map(|(before, now)| format!("{now:?}\n{}", said(before, now))).collect();
    expect![[r#""#]].assert_eq(&found);
}

#[test]
fn a_tokenizer_is_known_by_its_contents() {
    let run = |path: &str, checksum: Option<&str>| {
        let mut run = resolved(&[]);
        run["data"]["tokenizer"] = json!(path);
        if let Some(checksum) = checksum {
            run["data"]["tokenizer_checksum"] = json!(checksum);
        }
        run
    };
    let kinds = |before: &Value, now: &Value| -> Vec<(String, bool)> {
        let changed = ChangedKey::between(before, now);
        changed.iter().map(|key| (key.to_string(), key.effect == Effect::None)).collect()
    };
    let one = run("one.json", Some("1"));
    assert_eq!(kinds(&one, &run("one.json", Some("1"))), []);
    let moved = r#"data.tokenizer "one.json" -> "two.json""#.to_owned();
    assert_eq!(kinds(&one, &run("two.json", Some("1"))), [(moved.clone(), true)]);
    assert_eq!(kinds(&one, &run("two.json", Some("2"))), [(moved.clone(), false)]);
    assert_eq!(
        kinds(&one, &run("one.json", Some("2"))),
        [(r#"data.tokenizer "one.json""#.to_owned(), false)]
    );
    // A checkpoint of an earlier version does not say what was in it.
    assert_eq!(kinds(&run("one.json", None), &run("two.json", Some("2"))), [(moved, true)]);
}
