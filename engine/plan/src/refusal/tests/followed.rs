//! What messages about ZeRO and pipelines say to write is written, and must be accepted.

use pipezero_config::testing::{RESOURCES, file};
use pipezero_config::{NoticeKind, RunFile};
use regex::Regex;

use crate::{FromFileError, Plan};

/// What a file is told, and whether it is accepted all the same.
fn told(file: &RunFile) -> (bool, Vec<String>) {
    match Plan::from_file(file, RESOURCES) {
        Ok((_, notices)) => {
            let said = notices.iter().filter(|notice| notice.kind() != NoticeKind::Auto);
            (true, said.map(|notice| notice.message().to_owned()).collect())
        }
        Err(FromFileError::File(errors)) => (false, vec![errors.to_string()]),
        Err(other) => (false, vec![other.to_string()]),
    }
}

/// The section of a key that a message names without it.
fn path_of(key: &str) -> String {
    let section = match key {
        "stage"
        | "reduce"
        | "overlap_comm"
        | "unit_layers"
        | "prefetch_units"
        | "resident_units"
        | "sharding"
        | "parameters"
        | "vocabulary_slices"
        | "stage3_param_persistence_threshold" => "zero_optimization.",
        "pipeline" | "partition" | "schedule" | "virtual_stages" => "parallel.",
        _ => "",
    };
    format!("{section}{key}")
}

/// The changes that a message proposes, each as arguments of `--set`.
fn proposed(message: &str) -> Vec<Vec<String>> {
    // What costs how much comes after the repair.
    let text = message.split("\n\n").next().unwrap_or_default();
    let pair = Regex::new(r#""([a-z_0-9]+)": ("[^"]*"|[0-9.]+|true|false|\[[^\]]*\]|\{[^}]*\})"#).unwrap();
    let alternatives = Regex::new(r", or |; or |; use |; write |\n").unwrap();
    let of_alternative = |text: &str| {
        let pairs = pair.captures_iter(text).map(|of| (path_of(&of[1]), of[2].to_owned()));
        let set = |(path, value): (String, String)| match value.strip_prefix('{') {
            // An object is written beside what its section has.
            Some(keys) => {
                pair.captures_iter(keys).map(|of| format!("{path}.{}={}", &of[1], &of[2])).collect()
            }
            None => vec![format!("{path}={value}")],
        };
        pairs.flat_map(set).collect::<Vec<String>>()
    };
    let all = alternatives.split(text).map(of_alternative);
    all.filter(|alternative| !alternative.is_empty()).collect()
}

const MLP: &str = r#"{"family": "mlp", "num_layers": 8, "hidden_size": 100, "seq_length": 16}"#;
const GPT2: &str =
    r#"{"family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 16}"#;
const TWO: &str = r#"{"pipeline": 2, "data": 2, "partition": "uniform"}"#;
const FOUR: &str = r#"{"pipeline": 4, "data": 2}"#;
const LISTED: &str = r#"{"pipeline": 4, "data": 2, "partition": [2, 2, 2, 2]}"#;
const LOOPED: &str = r#"{"pipeline": 2, "data": 2, "schedule": "interleaved", "virtual_stages": 2}"#;
const DATA: &str = r#"{"data": 2}"#;

/// Model, grid, ZeRO and what else stands in a file.
type Written = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const CASES: [Written; 27] = [
    (MLP, TWO, r#"{"stage": 2}"#, &[]),
    (MLP, TWO, r#"{"stage": 2, "reduce": "every"}"#, &[]),
    (GPT2, LISTED, r#"{"stage": 2}"#, &[]),
    (GPT2, LOOPED, r#"{"stage": 2}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "parameters": ["persistent:."]}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "parameters": ["persistent:."]}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "parameters": ["persistent:.", "whole:ln_f.bias"]}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "stage3_param_persistence_threshold": 1e9}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "parameters": ["whole:."]}"#, &[]),
    (GPT2, DATA, r#"{"stage": 3, "reduce": "every", "parameters": ["persistent:."]}"#, &[]),
    (GPT2, DATA, r#"{"stage": 3, "reduce": "last", "parameters": ["persistent:."]}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "unit_layers": 2}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "unit_layers": 2, "resident_units": "strict"}"#, &[]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "unit_layers": 2, "resident_units": [2, 4]}"#, &[]),
    (GPT2, FOUR, r#"{"stage": 3, "reduce": "every", "unit_layers": "stage"}"#, &[]),
    (GPT2, FOUR, r#"{"stage": 3, "unit_layers": "stage", "stage3_param_persistence_threshold": 1e9}"#, &[]),
    (
        GPT2,
        FOUR,
        r#"{"stage": 3, "unit_layers": 2, "reduce": "every"}"#,
        &[("activation_checkpointing", r#"{"every_layers": 2}"#)],
    ),
    (
        r#"{"family": "mlp", "num_layers": 4, "hidden_size": 8, "seq_length": 16}"#,
        FOUR,
        r#"{"stage": 3, "reduce": "every", "resident_units": [2, 2, 2, 2]}"#,
        &[],
    ),
    (
        GPT2,
        TWO,
        r#"{"stage": 3, "reduce": "last", "parameters": ["persistent:."]}"#,
        &[("memory", "\"2MiB\"")],
    ),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "last"}"#, &[("memory", "\"2MiB\"")]),
    (GPT2, TWO, r#"{"stage": 3, "reduce": "every", "unit_layers": 4}"#, &[("memory", "\"2200KiB\"")]),
    (
        GPT2,
        TWO,
        r#"{"stage": 3, "reduce": "last", "stage3_param_persistence_threshold": 1e9}"#,
        &[("memory", "\"2MiB\"")],
    ),
    (GPT2, TWO, r#"{"stage": 1}"#, &[("memory", "\"2MiB\"")]),
    (GPT2, TWO, r#"{"stage": 1, "reduce": "every"}"#, &[("memory", "\"2MiB\"")]),
    (GPT2, TWO, r#"{"stage": 1, "parameters": ["persistent:."]}"#, &[("memory", "\"2MiB\"")]),
    (GPT2, TWO, r#"{"stage": 1, "resident_units": "all"}"#, &[("memory", "\"2MiB\"")]),
    (GPT2, DATA, r#"{"stage": 0}"#, &[("memory", "\"3MiB\"")]),
];

#[test]
fn what_a_message_says_to_write_is_accepted() {
    let (mut num_followed, mut silent, mut refused) = (0, Vec::new(), Vec::new());
    for (model, parallel, zero, others) in CASES {
        let mut keys = vec![("model", model), ("parallel", parallel), ("zero_optimization", zero)];
        keys.extend([("train_batch_size", "64"), ("gradient_accumulation_steps", "4")]);
        keys.extend(others);
        let file = RunFile::parse("run.json", &file(&keys)).unwrap();
        let (_, messages) = told(&file);
        let proposals: Vec<_> = messages.iter().flat_map(|message| proposed(message)).collect();
        if proposals.is_empty() {
            silent.push((zero, others, messages));
            continue;
        }
        for proposal in proposals {
            let (is_accepted, answer) = told(&file.clone().set(&proposal).unwrap());
            num_followed += 1;
            if !is_accepted {
                refused.push(format!("{parallel} {zero} {others:?}: {messages:?}\n{proposal:?}: {answer:?}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
    assert!(silent.is_empty() && num_followed > 60, "{num_followed} followed, nothing proposed: {silent:#?}");
}
