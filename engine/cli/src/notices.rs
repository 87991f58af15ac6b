//! What is worth knowing about a run file that is accepted: printed to stderr when a command has printed everything else, so that
//! it stands at the end, in sight.

use pipezero_config::{Notice, NoticeKind};

use super::output::ProcessOutput;
use super::terminal;

/// Hints, and values of `"auto"`, that are printed line by line; more of them are named in one line.
const LINES_MAX: usize = 3;

/// Columns before what continues a line.
const INDENT: usize = 4;

/// Lines that are printed when it is dropped.
#[derive(Debug)]
pub(super) struct Notices {
    file: String,
    of_file: Vec<Notice>,
    others: Vec<String>,
    is_in_full: bool,
    output: ProcessOutput,
}

impl Notices {
    /// The notices on a run file of this name.
    pub(super) fn new(file: String, of_file: Vec<Notice>) -> Self {
        Self { file, of_file, others: Vec::new(), is_in_full: false, output: ProcessOutput::of_this() }
    }

    /// The same notices, printed through another output than that of the process.
    pub(super) fn with_output(mut self, output: ProcessOutput) -> Self {
        self.output = output;
        self
    }

    /// Every notice gets its line.
    pub(super) fn in_full(mut self) -> Self {
        self.is_in_full = true;
        self
    }

    /// Every notice gets its line, except the values of `"auto"`, which are returned.
    pub(super) fn in_full_but_autos(mut self) -> (Self, Vec<Notice>) {
        let all = std::mem::take(&mut self.of_file);
        let (autos, others) = all.into_iter().partition(|notice| notice.kind() == NoticeKind::Auto);
        (self.of_file, self.is_in_full) = (others, true);
        (self, autos)
    }

    /// How many there are of a kind.
    pub(super) fn count(&self, kind: NoticeKind) -> usize {
        self.of_file.iter().filter(|notice| notice.kind() == kind).count()
    }

    /// A line behind those on the file.
    pub(super) fn add(&mut self, line: impl ToString) {
        self.others.push(line.to_string());
    }

    fn lines(&self) -> Vec<String> {
        let of_kind = |kind| self.of_file.iter().filter(move |notice| notice.kind() == kind);
        let mut lines = Vec::new();
        if self.is_in_full {
            lines.extend(of_kind(NoticeKind::Default).map(Notice::to_string));
        }
        for kind in [NoticeKind::Auto, NoticeKind::Hint, NoticeKind::Warning] {
            if kind == NoticeKind::Warning || self.is_in_full || self.count(kind) <= LINES_MAX {
                lines.extend(of_kind(kind).map(Notice::to_string));
            } else {
                lines.push(folded(&self.file, kind, of_kind(kind)));
            }
        }
        lines.extend(self.others.iter().cloned());
        lines
    }
}

/// Many notices of a kind in one line.
fn folded<'a>(file: &str, kind: NoticeKind, notices: impl Iterator<Item = &'a Notice>) -> String {
    let named: Vec<String> = notices
        .map(|notice| match kind {
            NoticeKind::Auto => format!("`{}` {}", notice.path(), notice.message()),
            _ if notice.path().is_empty() => "its form".to_owned(),
            _ => format!("`{}`", notice.path()),
        })
        .collect();
    let list = named.join(", ");
    match kind {
        NoticeKind::Auto => format!("{file}: \"auto\" is: {list}"),
        _ => {
            format!("{file}: {} hints, which `pipezero check` prints in full: {list}", named.len())
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let lines = self.lines();
        if !lines.is_empty() {
            self.output.note("");
        }
        for line in lines {
            self.output.note(terminal::wrapped_after(&line, terminal::width(), INDENT));
        }
    }
}
