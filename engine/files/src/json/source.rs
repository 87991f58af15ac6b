//! A text that JSON is read from, and places in it.

use std::fmt;
use std::sync::Arc;

use super::relaxed::blanked;
use super::words::shorten;
use crate::input::without_mark;
use crate::printable::{in_place, printable};

/// A text that keys come from: a file, or one `--set` argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// How messages name it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The text as strict JSON, every value at its place, where that is another.
    strict: Option<String>,
    /// What is drawn of the text, where it has control characters.
    drawn: Option<String>,
    /// What kind of text it is.
    pub kind: SourceKind,
}

/// Where a text was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A file: places are line and column.
    File,
    /// A `--set` argument: it is its own place.
    Argument,
}

impl Source {
    /// The text of a file, without the byte order mark that some editors put first.
    pub fn file(name: &str, text: &str) -> Arc<Self> {
        let text = without_mark(text).to_owned();
        Self::new(name, text, None, SourceKind::File)
    }

    /// As [`Source::file`], of a file that may have comments, and a comma behind a last part.
    pub fn relaxed_file(name: &str, text: &str) -> Arc<Self> {
        let text = without_mark(text).to_owned();
        let strict = blanked(&text);
        Self::new(name, text, strict, SourceKind::File)
    }

    fn new(name: &str, text: String, strict: Option<String>, kind: SourceKind) -> Arc<Self> {
        Arc::new(Self { name: printable(name).into_owned(), drawn: in_place(&text), text, strict, kind })
    }

    /// Whether errors may show lines of it. Somebody may name a file by mistake, or be made to name one, that holds passwords: what does not begin as
    /// the files that are read is not shown.
    pub fn is_shown(&self) -> bool {
        let text = self.json().trim_start();
        self.kind == SourceKind::Argument || text.is_empty() || text.starts_with('{')
    }

    /// What is drawn of the text, every place where it is.
    pub fn drawn(&self) -> &str {
        self.drawn.as_deref().unwrap_or(&self.text)
    }

    /// What is read as JSON.
    pub(super) fn json(&self) -> &str {
        self.strict.as_deref().unwrap_or(&self.text)
    }

    /// The first comment or comma behind a last part that was read over.
    pub fn relaxed_at(self: &Arc<Self>) -> Option<Span> {
        let pairs = self.text.bytes().zip(self.strict.as_ref()?.bytes());
        let start = pairs.take_while(|(written, read)| written == read).count();
        Some(self.span(start, start + 1))
    }

    /// A `--set` argument.
    pub fn argument(text: &str) -> Arc<Self> {
        Self::new("--set", text.to_owned(), None, SourceKind::Argument)
    }

    /// The bytes from `start` to before `end`.
    pub fn span(self: &Arc<Self>, start: usize, end: usize) -> Span {
        Span { source: Arc::clone(self), start, end }
    }
}

/// A range of bytes of a source. Shown as one word: `run.json:3:5`, or the `--set` argument itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub source: Arc<Source>,
    /// Its first byte.
    pub start: usize,
    /// The byte behind its last.
    pub end: usize,
}

impl Span {
    /// Sorts places: those of files first, each from top to bottom, then those of `--set` arguments.
    pub fn order(&self) -> (bool, &str, usize) {
        let is_argument = self.source.kind == SourceKind::Argument;
        // Arguments are told in the order in which they are found.
        (is_argument, if is_argument { "" } else { &self.source.name }, self.start)
    }

    /// The place as a message about another place names it: without the name of the file if that is the same.
    pub fn seen_from(&self, other: &Self) -> String {
        match Arc::ptr_eq(&self.source, &other.source) {
            true => {
                let (line, column) = self.line_column();
                format!("{line}:{column}")
            }
            false => self.to_string(),
        }
    }

    /// Line and column of the start, counted from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.source.text[..self.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// What stands there, as it was written.
    pub fn written(&self) -> &str {
        &self.source.text[self.start..self.end]
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.kind {
            SourceKind::File => {
                let (line, column) = self.line_column();
                write!(f, "{}:{line}:{column}", self.source.name)
            }
            SourceKind::Argument => write!(f, "--set {}", shorten(&self.source.text)),
        }
    }
}
