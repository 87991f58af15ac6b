//! Files that `simulate --out` has written, told from others by how they begin: only they are replaced.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::cli::out_file::Written;

/// What is written, in any format.
pub(super) const RESULT_FILE: Written = Written {
    name: "result of a simulation",
    writer: "simulate",
    example: "step.json",
    is_such: looks_like_result,
};

/// Bytes of a beginning: a picture has a title before it says what it is of.
const BEGINNING_BYTES: u64 = 1 << 13;

/// Whether a file begins as one of the formats does.
fn looks_like_result(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING_BYTES).read_to_end(&mut beginning));
    read.is_ok() && is_result(&String::from_utf8_lossy(&beginning))
}

fn is_result(beginning: &str) -> bool {
    let is = |start: &str, mark: &str| beginning.starts_with(start) && beginning.contains(mark);
    let header = beginning.lines().next().unwrap_or_default();
    let is_text = header.starts_with("   ")
        && header.split_whitespace().eq(["time", "bubble"])
        && beginning.contains("\nall ranks ");
    is_text
        || is("{\n  \"", "\n  \"bubble_rate_longest_rank\": ")
        || is("<svg ", "what each computes, gathers, reduces, sends and receives")
        || is("{\"displayTimeUnit\"", "\"name\":\"predicted ")
}
