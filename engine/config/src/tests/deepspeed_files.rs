//! Files of the shapes that DeepSpeed's users have. The expected answer to each is in a table (`engine/config/tests/deepspeed/README.md`).

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use regex::Regex;

use super::deepspeed::{MICRO_BATCH, folder, resolve};
use crate::resolved::Run;
use crate::{ConfigErrors, Notice, NoticeKind};

/// A row of the table.
struct Row {
    name: String,
    /// What DeepSpeed reads: level, type and batch.
    reads: String,
    /// What is to be said.
    says: String,
}

fn rows() -> Vec<Row> {
    let table = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        Some(Row { name: name.to_owned(), reads: cells[3].to_owned(), says: cells[4].to_owned() })
    };
    table.lines().filter_map(row).collect()
}

/// `ZeRO-2, f32, 8 = 2 x 1 x 4`
fn read(run: &Run) -> String {
    let (of, level, batch, data) =
        (run.precision.name(), run.zero.level as u8, &run.batch, run.parallel.data);
    let [train, micro, num] = [batch.train_batch_size, batch.micro_batch_size, batch.num_micro_batches];
    format!("ZeRO-{level}, {of}, {train} = {micro} x {num} x {data}")
}

/// What the table says of a file, as `loads HINTS WARNINGS` or `refused KEYS`.
fn verdict(says: &str) -> String {
    let head = says.split([':', ';']).next().unwrap_or(says);
    let counts = Regex::new(r"(\d+) (hint|warning|key)").unwrap();
    let number = |kind: &str| {
        let mut counts = counts.captures_iter(head).filter(|found| &found[2] == kind);
        counts.next().map(|found| found[1].to_owned())
    };
    if head.starts_with("refused") {
        return format!("refused {}", number("key").unwrap_or_else(|| "1".to_owned()));
    }
    assert!(head.starts_with("loads"), "{says}");
    // The plan warns of persistence, not the file.
    let warnings = number("warning").filter(|_| !says.contains("persists"));
    let [hints, warnings] = [number("hint"), warnings].map(|number| number.unwrap_or_else(|| "0".to_owned()));
    format!("loads {hints} {warnings}")
}

/// Where a trainer would fill in the batch, the file's user does.
fn resolve_with_batch(name: &str) -> Result<(Run, Vec<Notice>), ConfigErrors> {
    resolve(name, &[]).or_else(|errors| match errors.to_string().contains("must be a number: no trainer") {
        true => resolve(name, &[MICRO_BATCH]),
        false => Err(errors),
    })
}

#[test]
fn every_file_is_read_as_the_table_says() {
    let (mut wrong, mut answers, mut num_golden) = (String::new(), String::new(), 0);
    for Row { name, reads, says } in rows() {
        writeln!(answers, "{name}").unwrap();
        let found = match resolve_with_batch(&name) {
            Ok((run, notices)) => {
                notices.iter().for_each(|notice| writeln!(answers, "  {notice}").unwrap());
                let golden = reads.trim_end_matches("\\*").trim_end();
                if golden.starts_with("ZeRO-") {
                    num_golden += 1;
                    if read(&run) != golden {
                        writeln!(wrong, "{name}: {}, DeepSpeed: {golden}", read(&run)).unwrap();
                    }
                }
                let num_of = |kind| notices.iter().filter(|notice| notice.kind() == kind).count();
                format!("loads {} {}", num_of(NoticeKind::Hint), num_of(NoticeKind::Warning))
            }
            Err(errors) => {
                errors.to_string().lines().for_each(|line| writeln!(answers, "  error {line}").unwrap());
                format!("refused {}", errors.iter().count())
            }
        };
        if found != verdict(&says) {
            writeln!(wrong, "{name}: {found}, the table says: {says}").unwrap();
        }
    }
    assert!(num_golden >= 20, "{num_golden} files load here and in DeepSpeed");
    expect_file!["../../tests/deepspeed/answers.txt"].assert_eq(&answers);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_file_is_in_the_table_or_tested_by_name() {
    let files =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files
        .filter(|name| ![".md", ".txt"].iter().any(|end| name.ends_with(end)) && name != "fields.json")
        .collect();
    let named = include_str!("deepspeed.rs");
    let in_table: BTreeSet<String> = rows().into_iter().map(|row| row.name).collect();
    let untested: Vec<_> = files
        .iter()
        .filter(|name| !in_table.contains(*name) && !named.contains(&format!("\"{name}\"")))
        .collect();
    assert!(files.len() > 30 && untested.is_empty(), "{} files, untested: {untested:?}", files.len());
}
