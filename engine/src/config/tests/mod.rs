//! The whole path from text to run: what a valid file becomes, and the exact words for every mistake.

mod batch;
mod checkpointing;
mod deepspeed;
mod deepspeed_fields;
mod deepspeed_files;
mod defaults;
mod documents;
mod fix; // `check --fix`.
mod foreign;
mod foreign_keys;
mod grid;
mod learning;
mod limits;
mod links;
mod llama; // And `model.from`.
mod precision;
mod robust;
mod schedules;
mod sections;
mod syntax;
mod timed;
mod train_only;
mod vocabulary;
mod zero;

use expect_test::Expect;

use super::{ConfigErrors, HostGpu, Launch, Notice, Run, RunFile};

/// A host of 8 cores on which the engine starts its own ranks.
pub(crate) const LAUNCH: Launch =
    Launch { cores: 8, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };

/// A valid file, one key per line: `model` is line 2, `data` 3, `train_batch_size` 4, `steps` 5.
const BASE: &[(&str, &str)] = &[
    (
        "model",
        r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16}"#,
    ),
    ("data", r#"{"text": "a.md"}"#),
    ("train_batch_size", "8"),
    ("steps", "10"),
];

/// The valid file with some keys at the top level replaced or added; an empty value leaves a key out.
pub(crate) fn file(changes: &[(&str, &str)]) -> String {
    let mut keys = BASE.to_vec();
    for &(key, value) in changes {
        match keys.iter_mut().find(|(name, _)| *name == key) {
            Some(entry) => entry.1 = value,
            None => keys.push((key, value)),
        }
    }
    let written = keys.iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<String> = written.map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// The errors of a text, or what it says although nothing is wrong. It ends a line, so that expectations always are
/// lines of their own, which `cargo fmt` and `UPDATE_EXPECT=1` both leave in place.
fn outcome(text: &str, arguments: &[&str], launch: Launch) -> String {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let file = RunFile::parse("run.json", text).and_then(|file| file.set(&arguments));
    said(file.and_then(|file| file.resolve(launch)))
}

fn said(resolved: Result<(Run, Vec<Notice>), ConfigErrors>) -> String {
    match resolved {
        Ok((_, notices)) if notices.is_empty() => "valid\n".to_owned(),
        Ok((_, notices)) => notices.iter().map(|notice| format!("{notice}\n")).collect(),
        Err(errors) => format!("{errors}\n"),
    }
}

/// Compares the outcome of the valid file with changes.
fn check(changes: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&outcome(&file(changes), &[], LAUNCH));
}

/// Outcomes one after the other; all lines of an outcome but its first are indented.
fn listed(outcomes: impl IntoIterator<Item = String>) -> String {
    outcomes.into_iter().map(|outcome| outcome.trim_end().replace('\n', "\n  ") + "\n").collect()
}

/// Compares the outcomes of several files, each the valid one with changes.
fn check_each(cases: &[&[(&str, &str)]], expected: Expect) {
    expected.assert_eq(&listed(cases.iter().map(|changes| outcome(&file(changes), &[], LAUNCH))));
}

/// Compares the outcomes of the valid file with each of several values of one key.
fn check_values(key: &str, values: &[&str], expected: Expect) {
    expected.assert_eq(&listed(values.iter().map(|value| outcome(&file(&[(key, value)]), &[], LAUNCH))));
}

/// The run that the valid file with changes becomes.
fn run(changes: &[(&str, &str)]) -> Run {
    match RunFile::parse("run.json", &file(changes)).unwrap().resolve(LAUNCH) {
        Ok((run, _)) => run,
        Err(errors) => panic!("{errors}"),
    }
}
