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
const NO_KEYS: [&str; 4] = ["loss", "parallel.schedule.file", "ranks", "teacher"];

/// A key that is added to the run file has to be added to the table.
#[test]
fn every_key_of_the_run_file_has_one_row() {
    let run = RawRun::spec();
    let sections = run.all().into_iter();
    let mut keys: Vec<String> = sections
        .flat_map(|section| section.keys.iter().map(|key| join(section.path, key.name)))
        // What a base says is what the run says.
        .filter(|key| key != "extends")
        .chain(NO_KEYS.map(str::to_owned))
        .collect();
    let mut rows: Vec<&str> = TABLE.iter().map(|row| row.key).collect();
    keys.sort_unstable();
    rows.sort_unstable();
    assert_eq!(rows, keys);
}

const LLAMA: &str =
    r#""family": "llama", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16"#;

/// Keys with their values.
type Keys<'a> = &'a [(&'a str, &'a str)];

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
        resolved(&[
            ("scheduler", r#"{"type": "WarmupLR"}"#),
            ("checkpoint", r#"{"minutes": 0.5, "every": 5}"#),
        ]),
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
            let found = |run: &Value| run.pointer(&at).cloned();
            if found(run) == Some(Value::Null) && runs.iter().filter_map(found).any(|found| found.is_object())
            {
                // Another run has the parts of what is missing here.
                continue;
            }
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
        "init.from",
        "init.new",
        "loss",
        "memory",
        "model.from",
        "parallel.schedule.file",
        "ranks",
        "teacher",
        "train_only",
        "zero_optimization.overlap_comm",
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
            Effect::Rate | Effect::RateThrough(_) => "rate",
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
    let cases: [(Keys<'_>, Keys<'_>); 9] = [
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
    expect![[r#"
        [("seed", "0"), ("gradient_accumulation_steps", "1")]
        [("seed", "7"), ("steps", "20"), ("threads", "2")]
        rate: steps 10 -> 20
        learned: seed 0 -> 7
        plain: threads 8 -> 2
        [("model", "{\"family\": \"llama\", \"num_layers\": 4, \"hidden_size\": 32, \"num_attention_heads\": 4, \"seq_length\": 16, \"dropout\": 0}"), ("train_batch_size", "4")]
        learned: train_batch_size 8 -> 4
        plain: train_micro_batch_size_per_gpu 8 -> 4
        learned: model.family "gpt2" -> "llama"
        learned: model.tie_embeddings true -> false
        learned: model.ffn_hidden_size (not set) -> 256
        learned: model.num_query_groups (not set) -> 4
        learned: model.kv_channels (not set) -> 8
        learned: model.norm_epsilon (not set) -> 0.00001
        learned: model.rotary_base (not set) -> 10000.0
        learned: model.add_qkv_bias (not set) -> false
        learned: model.add_proj_bias (not set) -> false
        learned: model.add_mlp_bias (not set) -> false
        learned: model.qk_layernorm (not set) -> false
        learned: model.rope_scaling.rope_type (not set) -> "default"
        [("data", "{\"text\": \"b.md\", \"document_attention\": true}")]
        data: data.text ["a.md"] -> ["b.md"]
        learned: data.document_attention false -> true
        [("fp16", "{\"enabled\": true}")]
        learned: bf16.enabled true -> false
        learned: fp16.enabled false -> true
        plain: fp16.loss_scale (not set) -> 0
        plain: fp16.initial_scale_power (not set) -> 16
        plain: fp16.loss_scale_window (not set) -> 1000
        plain: fp16.hysteresis (not set) -> 2
        plain: fp16.consecutive_hysteresis (not set) -> false
        plain: fp16.min_loss_scale (not set) -> 1.0
        [("fp16", "{\"enabled\": true, \"loss_scale\": 128}")]
        plain: fp16.loss_scale 0 -> 128
        plain: fp16.initial_scale_power 16 -> (not set)
        plain: fp16.min_loss_scale 1.0 -> 128.0
        [("scheduler", "{\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 2}}")]
        rate: scheduler.type "constant" -> "WarmupDecayLR"
        rate: scheduler.params.warmup_min_lr (not set) -> 0.0
        rate: scheduler.params.warmup_max_lr (not set) -> 0.001
        rate: scheduler.params.warmup_num_steps (not set) -> 2
        rate: scheduler.params.warmup_type (not set) -> "log"
        rate: scheduler.params.total_num_steps (not set) -> 10
        [("checkpoint", "{\"minutes\": 0.1, \"keep\": 3}"), ("comm", "{\"timeout_s\": 0.5}")]
        plain: comm.timeout_s 300 -> 0.5
        plain: checkpoint.minutes (not set) -> 0.1
        plain: checkpoint.keep 2 -> 3
        [("comm", "{\"links\": {\"near\": {\"gb_per_s\": 0.1, \"latency_us\": 4.5}}}")]
        plain: comm.links.near.latency_us 3 -> 4.5
        plain: comm.links.near.gb_per_s 25 -> 0.1
        plain: comm.links.far.latency_us 3 -> 4.5
        plain: comm.links.far.gb_per_s 25 -> 0.1
    "#]].assert_eq(&found);
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
