//! JSON that remembers where every value was written, so that a rule broken far below can still point at its line.
//!
//! The file is strict JSON (RFC 8259): no comments, no trailing commas, no key twice. `serde_json` would lose the
//! positions and keep the last of two equal keys; here both are the point.

use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::error::{ConfigError, Problem};

/// A text that keys come from: the run file, or one `--set` argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// How messages name it.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// What kind of text it is.
    pub(crate) kind: SourceKind,
}

/// Where a text was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// The run file: places are line and column.
    File,
    /// A `--set` argument: it is its own place.
    Argument,
}

/// A range of bytes of a source.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) source: Arc<Source>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// Sorts places: those of the file first, from top to bottom, then those of `--set` arguments.
    pub(crate) fn order(&self) -> (bool, usize) {
        (self.source.kind == SourceKind::Argument, self.start)
    }

    /// Line and column of the start, counted from 1; columns count characters.
    pub(crate) fn line_column(&self) -> (usize, usize) {
        let before = &self.source.text[..self.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// A JSON value. Numbers keep their spelling, so that a message can repeat it.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Entry>),
}

/// A key, its place and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

impl Node {
    /// The value in words, for "found ...".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(text) => shorten(text),
            Value::String(text) => format!("the string \"{}\"", shorten(text)),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        }
    }
}

/// The text on one line and at most 40 characters long: a message must stay readable whatever the file holds.
pub(crate) fn shorten(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let head: String = characters.by_ref().take(40).collect();
    if characters.next().is_some() { head + "..." } else { head }
}

/// Strict JSON, whatever the parser would allow beside it.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a source as one JSON value. Reports what the parser found first, or else every key that stands twice.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Vec<ConfigError>> {
    parse_from(source, 0)
}

/// Reads the JSON value that a source holds from byte `offset` on (a `--set` argument, after its `=`).
pub(crate) fn parse_from(source: &Arc<Source>, offset: usize) -> Result<Node, Vec<ConfigError>> {
    let mut reader = Reader { source, offset, duplicates: Vec::new() };
    let parsed = match parse_to_ast(&source.text[offset..], &CollectOptions::default(), &STRICT) {
        Ok(parsed) => parsed,
        Err(error) => return Err(vec![reader.syntax_error(&error)]),
    };
    let Some(value) = parsed.value else {
        let problem = Problem::Syntax {
            message: "the file is empty; a run file is one JSON object".to_owned(),
            repair: None,
        };
        return Err(vec![ConfigError::new(reader.span(0, 0), "", problem)]);
    };
    let node = reader.node(value, "");
    if reader.duplicates.is_empty() { Ok(node) } else { Err(reader.duplicates) }
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    offset: usize,
    duplicates: Vec<ConfigError>,
}

impl Reader<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: Arc::clone(self.source), start: self.offset + start, end: self.offset + end }
    }

    fn node(&mut self, value: ast::Value<'_>, path: &str) -> Node {
        let range = jsonc_parser::common::Ranged::range(&value);
        let span = self.span(range.start, range.end);
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NumberLit(literal) => Value::Number(literal.value.to_owned()),
            ast::Value::StringLit(literal) => Value::String(literal.value.into_owned()),
            ast::Value::Array(array) => {
                let elements = array.elements.into_iter().enumerate();
                Value::Array(elements.map(|(i, e)| self.node(e, &format!("{path}[{i}]"))).collect())
            }
            ast::Value::Object(object) => Value::Object(self.entries(object, path)),
        };
        Node { value, span }
    }

    fn entries(&mut self, object: ast::Object<'_>, path: &str) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
        for property in object.properties {
            let range = jsonc_parser::common::Ranged::range(&property.name);
            let key_span = self.span(range.start, range.end);
            let key = property.name.into_string();
            let path = join(path, &key);
            let node = self.node(property.value, &path);
            match entries.iter().find(|earlier| earlier.key == key) {
                Some(earlier) => {
                    let (line, column) = earlier.key_span.line_column();
                    let problem = Problem::DuplicateKey { first_line: line, first_column: column };
                    self.duplicates.push(ConfigError::new(key_span, &path, problem));
                }
                None => entries.push(Entry { key, key_span, node }),
            }
        }
        entries
    }

    fn syntax_error(&self, error: &ParseError) -> ConfigError {
        let range = error.range();
        let message = match error.kind() {
            ParseErrorKind::UnterminatedObject => {
                "this object is never closed: the text ends before its `}`".to_owned()
            }
            ParseErrorKind::UnterminatedArray => {
                "this list is never closed: the text ends before its `]`".to_owned()
            }
            ParseErrorKind::CommentsNotAllowed => "comments are not JSON; remove it".to_owned(),
            kind => lower_first(&kind.to_string()),
        };
        ConfigError::new(self.span(range.start, range.end), "", Problem::Syntax { message, repair: None })
    }
}

/// `section.key`, or `key` at the top level.
pub(crate) fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
