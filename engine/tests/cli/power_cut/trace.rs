//! System calls of a program, as `strace` wrote them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A system call that succeeded.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    /// As strace writes them: `5<path>`, `"text"`, `O_RDWR|O_CREAT`.
    arguments: Vec<String>,
    pub(super) result: i64,
}

const CLOSE: &str = "close(";

impl Call {
    /// The calls of a trace that was made with `-f -y -xx`, in the order in which they returned; but a close where it began. From there on the
    /// system may give its number to a file that another thread opens, before the close returns.
    pub(super) fn read_all(trace: &str) -> Vec<Self> {
        // The beginning of calls that other threads interrupted.
        let mut begun: HashMap<&str, &str> = HashMap::new();
        let mut calls = Vec::new();
        for line in trace.lines() {
            let (thread, line) = line.split_once(' ').unwrap();
            let line = line.trim_start();
            if let Some(beginning) = line.strip_suffix(" <unfinished ...>") {
                begun.insert(thread, beginning);
                if beginning.starts_with(CLOSE) {
                    calls.extend(Self::read(&format!("{beginning}) = 0")));
                }
            } else if let Some((_, end)) = line.split_once(" resumed>") {
                let beginning = begun.remove(thread).unwrap();
                if !beginning.starts_with(CLOSE) {
                    calls.extend(Self::read(&format!("{beginning}{end}")));
                }
            } else if !line.starts_with("+++") {
                calls.extend(Self::read(line));
            }
        }
        calls
    }

    /// A whole call; `None` where it failed, or its program ended in it.
    fn read(text: &str) -> Option<Self> {
        let (call, result) = text.rsplit_once(" = ")?;
        let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        let digits = result.split([' ', '<']).next()?;
        let result = match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let result = result.ok().filter(|&result| result >= 0)?;
        let arguments = arguments.split(", ").map(str::to_owned).collect();
        Some(Self { name: name.to_owned(), arguments, result })
    }

    /// The number of an open file.
    pub(super) fn file(&self, at: usize) -> i64 {
        let text = &self.arguments[at];
        text.split('<').next().unwrap().parse().unwrap_or_else(|_| panic!("{text} is no open file"))
    }

    pub(super) fn number(&self, at: usize) -> i64 {
        self.arguments[at].parse().unwrap()
    }

    /// Whether an argument has a flag.
    pub(super) fn has(&self, at: usize, flag: &str) -> bool {
        self.arguments.get(at).is_some_and(|flags| flags.split('|').any(|found| found == flag))
    }

    /// The bytes of a string, of which strace has left nothing out.
    pub(super) fn bytes(&self, at: usize) -> Vec<u8> {
        let text = self.arguments[at].strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        hex(text.unwrap_or_else(|| panic!("{} was not traced whole", self.arguments[at])))
    }

    /// A path: relative ones begin in `here`, or in the open folder that stands before them.
    pub(super) fn path(&self, at: usize, here: &Path) -> PathBuf {
        let folder = at.checked_sub(1).and_then(|before| {
            let (_, path) = self.arguments[before].split_once('<')?;
            Some(path_of(hex(path.strip_suffix('>')?)))
        });
        folder.unwrap_or_else(|| here.to_owned()).join(path_of(self.bytes(at)))
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(String::from_utf8(bytes).unwrap())
}

/// The bytes of `\x6f\x75`.
fn hex(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

/// One thread closes a file and another opens one under its number, which is written to after the close has returned.
#[test]
fn a_close_counts_where_it_begins() {
    let trace = "1 close(5<\\x61> <unfinished ...>\n\
                 2 openat(AT_FDCWD, \"\\x62\", O_WRONLY|O_CREAT) = 5<\\x62>\n\
                 1 <... close resumed>) = 0\n\
                 2 write(5<\\x62>, \"\\x63\", 1 <unfinished ...>\n\
                 1 close(6<\\x61>) = 0\n\
                 2 <... write resumed>) = 1\n";
    let names: Vec<String> = Call::read_all(trace).into_iter().map(|call| call.name).collect();
    assert_eq!(names, ["close", "openat", "close", "write"]);
}
