//! Files of a few bytes, or that claim to be large, made to take time or memory without end: each is refused with one error, in seconds and in
//! little memory.

use std::fs::{self, File};
use std::io::Write;

use crate::command::Home;
use crate::exploding_files::{orders_and_tokens, runs, weights};
use crate::exploding_tokenizers::{templates, tokenizers};
use crate::in_threads::in_threads;
use crate::neighbours::{prepared, restore};
use crate::sample::Sample;
use crate::stand_ins::within;

/// Seconds of processor time, so that other work on the machine does not count.
const SECONDS_MAX: f64 = 10.0;
const KIB_MAX: u64 = 512 << 10;

/// An index, which is read where there is no single file.
pub(crate) const INDEX: &str = "hf/model.safetensors.index.json";
pub(crate) const FILE: &str = "hf/model.safetensors";

/// A file and the command that reads it.
pub(crate) struct Exploding {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) contents: Contents,
    pub(crate) line: &'static str,
}

pub(crate) enum Contents {
    Bytes(Vec<u8>),
    /// A file of so many bytes that begins so; the rest takes no room on the disk.
    Sparse(Vec<u8>, u64),
}

impl Exploding {
    pub(crate) fn text(
        name: &'static str,
        path: &'static str,
        line: &'static str,
        text: impl Into<Vec<u8>>,
    ) -> Self {
        Self { name, path, contents: Contents::Bytes(text.into()), line }
    }

    pub(crate) fn sparse(
        name: &'static str,
        path: &'static str,
        line: &'static str,
        beginning: &[u8],
        num_bytes: u64,
    ) -> Self {
        Self { name, path, contents: Contents::Sparse(beginning.to_vec(), num_bytes), line }
    }

    /// The same with a part of its text replaced.
    pub(crate) fn replaced(mut self, from: &str, to: &str) -> Self {
        if let Contents::Bytes(bytes) = &mut self.contents {
            *bytes = String::from_utf8(std::mem::take(bytes)).unwrap().replacen(from, to, 1).into_bytes();
        }
        self
    }

    fn write(&self, home: &Home) {
        let path = home.path(self.path);
        if self.path == INDEX {
            fs::remove_file(home.path(FILE)).unwrap();
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match &self.contents {
            Contents::Bytes(bytes) => fs::write(path, bytes).unwrap(),
            Contents::Sparse(beginning, num_bytes) => {
                let mut file = File::create(path).unwrap();
                file.write_all(beginning).unwrap();
                file.set_len(*num_bytes).unwrap();
            }
        }
    }
}

/// The processor time and the memory of a command.
struct Used {
    seconds: f64,
    kib: u64,
}

#[test]
fn files_that_are_made_to_explode_are_refused() {
    let example = prepared();
    example.write("big.txt", "x y ".repeat(1 << 18));
    let mut sample = Sample::one_in(4, "file made to explode");
    let mut rows: Vec<Exploding> =
        [tokenizers(), templates(), weights(), orders_and_tokens(), runs()].into_iter().flatten().collect();
    rows.retain(|_| sample.takes_next());
    assert_eq!(sample.num_cases(), 73, "docs/data.md says how many");
    let found = in_threads(&rows, |row| {
        let home = Home::new();
        restore(&home, &example);
        row.write(&home);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/measured.py");
        let output = within(&home, &["python3", script, "used"], row.line).output().unwrap();
        let used = home.read("used");
        let (seconds, kib) = used.split_once(' ').unwrap();
        let used = Used { seconds: seconds.parse().unwrap(), kib: kib.parse().unwrap() };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (fault(output.status.code(), &said, &used), used, said)
    });
    let mut faults = Vec::new();
    for (row, (fault, Used { seconds, kib }, said)) in rows.iter().zip(&found) {
        let error: String =
            said.lines().find(|line| line.starts_with("error: ")).unwrap_or("").chars().take(160).collect();
        println!("{:45} {seconds:6.2} s {:5} MiB  {error}", row.name, kib >> 10);
        let said: String = said.chars().take(2000).collect();
        faults.extend(fault.as_ref().map(|fault| format!("{}: {fault}: {said}", row.name)));
    }
    assert!(faults.is_empty(), "{} of {} rows fail:\n{}", faults.len(), rows.len(), faults.join("\n"));
    let most = found.iter().map(|(_, used, _)| used.kib >> 10).max().unwrap();
    let longest = found.iter().map(|(_, used, _)| used.seconds).fold(0.0, f64::max);
    println!("{} files, {longest:.1} s at most, {most} MiB at most", rows.len());
}

/// Why a row fails, if it does.
fn fault(status: Option<i32>, said: &str, used: &Used) -> Option<String> {
    let num_errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    if !matches!(status, Some(1 | 2)) {
        Some(format!("status {status:?}"))
    } else if num_errors != 1 || said.contains("panicked") {
        Some(format!("{num_errors} errors"))
    } else if used.seconds > SECONDS_MAX {
        Some(format!("{} s", used.seconds))
    } else if used.kib > KIB_MAX {
        Some(format!("{} MiB", used.kib >> 10))
    } else {
        None
    }
}
