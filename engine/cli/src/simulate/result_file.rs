//! Files that `simulate --out` wrote, recognised by a mark at their beginning: only they are replaced.
//!
//! The mark comes first, because another program that edits and saves such a file writes a beginning of its own, and the
//! file is then not replaced. Tables have no mark: notes into which somebody pasted a table would be replaced.

use std::io::Read;
use std::path::Path;

use pipezero_files::opened::open_regular;
use pipezero_schedule::render::{Gantt, Track};
use serde_json::{Map, Value};

use crate::out_file::Written;

/// The writer that the mark names.
const WRITER: &str = "pipezero simulate";

/// The files that may be replaced.
pub(super) const RESULT_FILE: Written = Written {
    name: "JSON result, picture or trace of a simulation",
    writer: "simulate",
    example: "step.json",
    is_such: begins_with_mark,
};

/// Figures as JSON: the first key is the mark.
pub(super) fn json(figures: Value) -> String {
    let mut marked = Map::from_iter([("result".to_owned(), Value::from(WRITER))]);
    match figures {
        Value::Object(figures) => marked.extend(figures),
        other => unreachable!("figures have names: {other}"),
    }
    format!("{:#}\n", Value::Object(marked))
}

/// A picture: a comment before it is the mark.
pub(super) fn svg(gantt: &Gantt<'_>) -> String {
    format!("<!-- {WRITER} -->\n{}", pipezero_schedule::render::svg(gantt))
}

/// A trace: its writer is the mark.
pub(super) fn chrome(tracks: &[Track<'_>]) -> String {
    pipezero_schedule::render::chrome(tracks, WRITER)
}

/// The beginnings of JSON, pictures and traces with the mark.
fn beginnings() -> [String; 3] {
    [
        format!("{{\n  \"result\": \"{WRITER}\","),
        format!("<!-- {WRITER} -->\n<svg "),
        format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"writer\":\"{WRITER}\"}},"),
    ]
}

fn begins_with_mark(path: &Path) -> bool {
    let beginnings = beginnings();
    let longest = beginnings.iter().map(String::len).max().unwrap_or(0);
    let mut found = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(longest as u64).read_to_end(&mut found));
    read.is_ok() && beginnings.iter().any(|beginning| found.starts_with(beginning.as_bytes()))
}
