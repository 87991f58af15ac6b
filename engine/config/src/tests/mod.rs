//! The whole path from text to run: what a valid file becomes, and the exact words for every mistake.

mod batch;
mod changed_defaults;
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
mod schema;
mod sections;
mod syntax;
mod timed;
mod train_only;
mod vocabulary;
mod zero;

use expect_test::Expect;

use super::testing::{BASE, RESOURCES, beside_defaults, file};
use super::{ConfigErrors, Notice, Resources, Run, RunFile};

/// The errors of a text, or what it says although nothing is wrong. It ends a line, so that expectations always are
/// lines of their own, which `cargo fmt` and `UPDATE_EXPECT=1` both leave in place.
fn outcome(text: &str, arguments: &[&str], resources: Resources) -> String {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let file = RunFile::parse("run.json", text).and_then(|file| file.set(&arguments));
    said(file.and_then(|file| file.resolve(resources)))
}

/// Without the defaults, which nearly every file has: `changed_defaults` is about them.
fn said(resolved: Result<(Run, Vec<Notice>), ConfigErrors>) -> String {
    match resolved {
        Ok((_, notices)) => {
            let lines: String = beside_defaults(&notices).map(|notice| format!("{notice}\n")).collect();
            if lines.is_empty() { "valid\n".to_owned() } else { lines }
        }
        Err(errors) => format!("{errors}\n"),
    }
}

/// Compares the outcome of the valid file with changes.
fn check(changes: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&outcome(&file(changes), &[], RESOURCES));
}

/// Outcomes one after the other; all lines of an outcome but its first are indented.
fn listed(outcomes: impl IntoIterator<Item = String>) -> String {
    outcomes.into_iter().map(|outcome| outcome.trim_end().replace('\n', "\n  ") + "\n").collect()
}

/// Compares the outcomes of several files, each the valid one with changes.
fn check_each(cases: &[&[(&str, &str)]], expected: Expect) {
    expected.assert_eq(&listed(cases.iter().map(|changes| outcome(&file(changes), &[], RESOURCES))));
}

/// Compares the outcomes of the valid file with each of several values of one key.
fn check_values(key: &str, values: &[&str], expected: Expect) {
    expected.assert_eq(&listed(values.iter().map(|value| outcome(&file(&[(key, value)]), &[], RESOURCES))));
}

/// The run that the valid file with changes becomes.
fn run(changes: &[(&str, &str)]) -> Run {
    match RunFile::parse("run.json", &file(changes)).unwrap().resolve(RESOURCES) {
        Ok((run, _)) => run,
        Err(errors) => panic!("{errors}"),
    }
}
