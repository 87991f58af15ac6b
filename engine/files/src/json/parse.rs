//! Text to nodes: strict JSON (RFC 8259), every value with its place, no key twice.
//!
//! `jiter` reads the values one after the other and says where it is.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use super::error::{Edit, JsonError};
use super::node::{Entry, Node, Value};
use super::source::{Source, Span};
use super::words::shorten;

impl Source {
    /// Where the value stands that a path leads to; the beginning where it leads to none.
    pub fn place_of(self: &Arc<Self>, path: &str) -> Span {
        let root = parse_first(self).ok();
        let found = root.as_ref().and_then(|root| root.find(path));
        found.map_or_else(|| self.span(0, 0), |node| node.span.clone())
    }
}

/// How a text begins whose first mistake is shown with the words that stand there: JSON, or JSON with comments or other quotes.
const BEGINNINGS: [char; 6] = ['{', '[', '"', '\'', '#', '/'];
const NO_JSON: &str = "this is no file of JSON: it does not begin with `{`";

/// Lists and objects within each other at most: reading goes down by recursion.
const MAX_DEPTH: usize = 128;

/// Reads a source as one JSON value.
///
/// Errors: the first place where it is not JSON, or else every key that stands twice.
pub fn parse(source: &Arc<Source>) -> Result<Node, Vec<JsonError>> {
    parse_from(source, 0)
}

/// As [`parse`], with the first mistake alone.
pub fn parse_first(source: &Arc<Source>) -> Result<Node, JsonError> {
    parse(source).map_err(|mut errors| errors.swap_remove(0))
}

/// Reads the JSON value that a source holds from byte `offset` on (a `--set` argument, after its `=`).
pub fn parse_from(source: &Arc<Source>, offset: usize) -> Result<Node, Vec<JsonError>> {
    let node = Parser::new(source, offset).whole(Parser::value).map_err(|error| vec![*error])?;
    let mut doubled = Vec::new();
    find_doubled_keys(&node, &mut doubled);
    if doubled.is_empty() { Ok(node) } else { Err(doubled) }
}

/// Keys that stand twice are reported up to this number, one more than are drawn: finding line and column reads the whole text.
const DOUBLED_MAX: usize = 101;

/// Adds the keys that stand twice in one object, from top to bottom.
fn find_doubled_keys(node: &Node, found: &mut Vec<JsonError>) {
    match &node.value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                find_inside(element, &format!("[{index}]"), found);
            }
        }
        Value::Object(entries) => {
            let mut first = HashMap::new();
            for Entry { key, key_span, node } in entries {
                match first.entry(key) {
                    Slot::Vacant(slot) => drop(slot.insert(key_span)),
                    Slot::Occupied(slot) if found.len() < DOUBLED_MAX => {
                        let (line, column) = slot.get().line_column();
                        let rule = format!("stands twice, first at {line}:{column}");
                        let error = JsonError::value(key_span, rule).inside(key);
                        found.push(error.repair("keep one of the two"));
                    }
                    Slot::Occupied(_) => {}
                }
                find_inside(node, key, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number | Value::String(_) => {}
    }
}

/// Adds those of a part of an object or a list.
fn find_inside(part: &Node, name: &str, found: &mut Vec<JsonError>) {
    let before = found.len();
    find_doubled_keys(part, found);
    let inner = found.split_off(before);
    found.extend(inner.into_iter().map(|error| error.inside(name)));
}

pub(super) type Parsed<T> = Result<T, Box<JsonError>>;

/// Goes through a text from value to value.
pub(super) struct Parser<'a> {
    pub(super) source: &'a Arc<Source>,
    /// Where the reader began.
    offset: usize,
    reader: Jiter<'a>,
    /// Lists and objects that are being read: where each begins, and how many parts of it were read.
    open: Vec<(usize, usize)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a Arc<Source>, offset: usize) -> Self {
        let reader = Jiter::new(&source.json().as_bytes()[offset..]);
        Self { source, offset, reader, open: Vec::new() }
    }

    /// Reads the one value of the text.
    pub(super) fn whole<T, E: From<Box<JsonError>>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let is_empty = self.source.json()[self.offset..].trim_ascii().is_empty();
        if is_empty {
            let end = self.source.json().len();
            let rule = "the file is empty; it must hold one JSON object".to_owned();
            return Err(Box::new(self.error(end, rule)).into());
        }
        let value = read(self)?;
        self.reader.finish().map_err(|error| self.refused(&error))?;
        Ok(value)
    }

    /// The next byte.
    pub(super) fn at(&self) -> usize {
        self.offset + self.reader.current_index()
    }

    /// The kind of the next value, without stepping over it.
    pub(super) fn peek(&mut self) -> Parsed<Peek> {
        self.reader.peek().map_err(|error| self.refused(&error))
    }

    /// Reads a value.
    pub(super) fn value(&mut self) -> Parsed<Node> {
        let kind = self.peek()?;
        let start = self.at();
        let value = match kind {
            Peek::Object => {
                let mut entries = Vec::new();
                self.enter()?;
                while let Some((key, key_span)) = self.next_key()? {
                    entries.push(Entry { key, key_span, node: self.value()? });
                }
                Value::Object(entries)
            }
            Peek::Array => {
                let mut elements = Vec::new();
                self.enter()?;
                while self.next_element()?.is_some() {
                    elements.push(self.value()?);
                }
                Value::Array(elements)
            }
            Peek::String => Value::String(self.string()?),
            Peek::True | Peek::False => Value::Bool(self.bool(kind)?),
            Peek::Null => self.null().map(|()| Value::Null)?,
            _ => self.number(kind).map(|_| Value::Number)?,
        };
        Ok(Node { value, span: self.source.span(start, self.at()) })
    }

    /// Begins the list or object that comes next.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        let start = self.at();
        if self.open.len() == MAX_DEPTH {
            let rule = format!("lists and objects are more than {MAX_DEPTH} deep within each other");
            return Err(Box::new(self.error(start, rule)));
        }
        self.open.push((start, 0));
        Ok(())
    }

    /// How many parts of the innermost list or object were read, before it is stepped to the next.
    fn num_read(&self) -> usize {
        self.open.last().expect("a list or object was entered").1
    }

    /// Steps to the next part of the innermost list or object, or over its end.
    fn step<T>(&mut self, part: Option<T>) -> Option<T> {
        match (&part, self.open.last_mut()) {
            (Some(_), Some((_, num_read))) => *num_read += 1,
            _ => drop(self.open.pop()),
        }
        part
    }

    /// Steps to the next element of the list, and says its index.
    pub(super) fn next_element(&mut self) -> Parsed<Option<usize>> {
        let index = self.num_read();
        let found = if index == 0 { self.reader.known_array() } else { self.reader.array_step() };
        let found = found.map_err(|error| self.refused(&error))?;
        Ok(self.step(found.map(|_| index)))
    }

    /// Steps over the next key of the object and the colon behind it.
    pub(super) fn next_key(&mut self) -> Parsed<Option<(String, Span)>> {
        let before = self.at();
        let is_first = self.num_read() == 0;
        let found = if is_first { self.reader.known_object() } else { self.reader.next_key() };
        let key = found.map(|key| key.map(str::to_owned));
        let key = key.map_err(|error| self.refused(&error))?.map(|key| {
            let text = &self.source.json()[..self.at() - 1];
            let start = before + text[before..].find('"').expect("a key begins with a quote");
            (key, self.source.span(start, text.trim_ascii_end().len()))
        });
        Ok(self.step(key))
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        self.reader.next_str().map(str::to_owned).map_err(|error| self.refused(&error))
    }

    pub(super) fn bool(&mut self, kind: Peek) -> Parsed<bool> {
        self.reader.known_bool(kind).map_err(|error| self.refused(&error))
    }

    pub(super) fn null(&mut self) -> Parsed<()> {
        self.reader.known_null().map_err(|error| self.refused(&error))
    }

    /// Reads a number, as it is spelled.
    pub(super) fn number(&mut self, kind: Peek) -> Parsed<&'a str> {
        let start = self.at();
        self.reader.known_number_bytes(kind).map(drop).map_err(|error| self.refused(&error))?;
        Ok(&self.source.json()[start..self.at()])
    }

    /// The reader's error in our words, at what was not closed or at what does not belong there.
    #[cold]
    fn refused(&self, error: &JiterError) -> Box<JsonError> {
        use JsonErrorType as Kind;
        let text = self.source.json();
        let at = text.floor_char_boundary(self.offset + error.index);
        let JiterErrorType::JsonError(kind) = &error.error_type else {
            unreachable!("values are read as what they are");
        };
        let never_closed =
            |what: &str, end: char| format!("this {what} is never closed: the text ends before its `{end}`");
        let ends = matches!(
            kind,
            Kind::EofWhileParsingList | Kind::EofWhileParsingObject | Kind::EofWhileParsingValue
        );
        // Such a file may be one of passwords.
        if self.open.is_empty() && !self.source.is_shown() && !text.trim_start().starts_with(BEGINNINGS) {
            return Box::new(self.error(at, NO_JSON.to_owned()));
        }
        let (start, rule) = match (kind, self.open.last()) {
            (Kind::EofWhileParsingString, _) => (self.at(), never_closed("string", '"')),
            (_, Some(&(open, _))) if ends => {
                let is_list = text[open..].starts_with('[');
                (open, if is_list { never_closed("list", ']') } else { never_closed("object", '}') })
            }
            (kind, _) => self.misplaced(kind, at),
        };
        let edit = if ends { None } else { self.strict(kind, start) };
        Box::new(self.error(start, rule).mended_by(edit))
    }

    /// The strict spelling of a form that Hjson and Python have: a word without quotes or in single ones, `True`, a comma left out.
    fn strict(&self, kind: &JsonErrorType, start: usize) -> Option<Edit> {
        use JsonErrorType as Kind;
        let text = self.source.json();
        if let Some(inner) = in_single_quotes(&text[start..]) {
            let span = self.source.span(start, start + inner.len() + 2);
            return Some(Edit { span, text: format!("\"{inner}\"") });
        }
        let word = self.word(start);
        let spelled = match kind {
            Kind::ExpectedObjectCommaOrEnd | Kind::ExpectedListCommaOrEnd => {
                let begins_part = |first: char| first.is_alphanumeric() || "\"_-{[".contains(first);
                let place = text[..start].trim_ascii_end().len();
                if self.goes_on_as_word(start) {
                    return None;
                }
                let span = self.source.span(place, place);
                return text[start..].starts_with(begins_part).then(|| Edit { span, text: ",".to_owned() });
            }
            Kind::KeyMustBeAString if !word.is_empty() => format!("\"{word}\""),
            _ => match Word::of(word) {
                Word::Literal { strict, .. } => strict.to_owned(),
                // A string without quotes that goes on behind the word may end anywhere.
                Word::Text if is_whole(&text[start + word.len()..]) => format!("\"{word}\""),
                Word::Text | Word::NotFinite | Word::Unfinished => return None,
            },
        };
        Some(Edit { span: self.source.span(start, start + word.len()), text: spelled })
    }

    /// What is wrong with the character that the reader stopped at, and where that begins.
    fn misplaced(&self, kind: &JsonErrorType, at: usize) -> (usize, String) {
        use JsonErrorType as Kind;
        let text = self.source.json();
        let first = text[at..].chars().next();
        let start = match kind {
            Kind::TrailingComma => text[..at].rfind(',').unwrap_or(at),
            Kind::InvalidEscape
            | Kind::UnexpectedEndOfHexEscape
            | Kind::LoneLeadingSurrogateInHexEscape
            | Kind::InvalidUnicodeCodePoint => text[..at].rfind('\\').unwrap_or(at),
            Kind::ExpectedSomeIdent | Kind::NumberOutOfRange => self.at(),
            _ => at,
        };
        let rule = match kind {
            Kind::TrailingComma => "a comma behind the last part is not JSON; remove it".to_owned(),
            Kind::ControlCharacterWhileParsingString if matches!(first, Some('\n' | '\r')) => {
                "a string must end on the line where it begins; close it, or write the line end as `\\n`"
                    .to_owned()
            }
            Kind::ControlCharacterWhileParsingString => {
                format!(
                    "a string holds the control character U+{:04X}; escape it",
                    first.map_or(0, u32::from)
                )
            }
            Kind::InvalidEscape if start + 1 == at => {
                "no such escape in a string; for a backslash write `\\\\`".to_owned()
            }
            Kind::InvalidEscape
            | Kind::UnexpectedEndOfHexEscape
            | Kind::LoneLeadingSurrogateInHexEscape
            | Kind::InvalidUnicodeCodePoint => {
                "`\\u` needs four hexadecimal digits, and both halves of a surrogate pair must be there"
                    .to_owned()
            }
            Kind::NumberOutOfRange => "a number has more than 4300 digits; write fewer".to_owned(),
            _ if text[at..].starts_with("/*") && !text[at..].contains("*/") => {
                "this comment is never closed: the text ends before its `*/`".to_owned()
            }
            _ if matches!(first, Some('/' | '#')) => "comments are not JSON; remove it".to_owned(),
            _ if first == Some('\'') => {
                "strings and keys of JSON are in double quotes; write `\"` in place of `'`".to_owned()
            }
            Kind::InvalidNumber if first.is_some_and(|first| first.is_ascii_digit()) => {
                "a number of JSON has no leading zeros; remove them".to_owned()
            }
            Kind::InvalidNumber => self.expected(start, "a digit"),
            Kind::KeyMustBeAString => match self.word(start) {
                "" => self.expected(start, "a key in quotes"),
                word => format!("a key of JSON is in quotes; write `\"{}\"`", shorten(word)),
            },
            Kind::ExpectedListCommaOrEnd | Kind::ExpectedObjectCommaOrEnd if self.goes_on_as_word(start) => {
                "a number of JSON has digits, a point and an exponent alone, as in 1000000, 0.5 or 5e8"
                    .to_owned()
            }
            Kind::ExpectedColon => self.expected(start, "`:`"),
            Kind::ExpectedListCommaOrEnd => self.expected(start, "`,` or `]`"),
            Kind::ExpectedObjectCommaOrEnd => self.expected(start, "`,` or `}`"),
            Kind::TrailingCharacters => self.expected(start, "the end of the file"),
            _ => self.no_value(start),
        };
        (start, rule)
    }

    /// Whether a value goes on without a space as a word: `1_000`, `64K`, `0x10`.
    fn goes_on_as_word(&self, at: usize) -> bool {
        let is_in_word = |character: char| character.is_alphanumeric() || character == '_';
        let text = self.source.json();
        text[..at].ends_with(is_in_word) && text[at..].starts_with(is_in_word)
    }

    /// What is wrong with what stands where a value belongs.
    fn no_value(&self, start: usize) -> String {
        let word = self.word(start);
        match Word::of(word) {
            Word::Literal { name, strict: strict @ "null" } => {
                format!("JSON knows no `{name}`; write `{strict}`, or leave the key out")
            }
            Word::Literal { name, strict } => format!("JSON knows no `{name}`; write `{strict}`"),
            Word::NotFinite => format!("JSON knows no `{word}`; write a number"),
            Word::Unfinished => self.expected(start, "a value"),
            Word::Text => format!("a string of JSON is in quotes; write `\"{}\"`", shorten(word)),
        }
    }

    /// The word that begins at a place with a letter, as names and paths are written.
    fn word(&self, at: usize) -> &str {
        let rest = &self.source.json()[at..];
        if !rest.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            return "";
        }
        let is_in_word = |character: char| character.is_alphanumeric() || "_-./".contains(character);
        &rest[..rest.find(|character| !is_in_word(character)).unwrap_or(rest.len())]
    }

    /// What belongs at a place, and the word or character that stands there instead.
    fn expected(&self, at: usize, what: &str) -> String {
        let rest = &self.source.json()[at..];
        let word = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
        let length = word.max(rest.chars().next().map_or(0, char::len_utf8));
        let found = match rest[..length].chars().next() {
            None => "the text ends".to_owned(),
            Some('\n' | '\r') => "the line ends".to_owned(),
            Some(first)
                if first.is_control() || (first.is_whitespace() && first != ' ') || first == '\u{feff}' =>
            {
                format!("the character U+{:04X} stands there", u32::from(first))
            }
            Some(_) => format!("`{}` stands there", shorten(&rest[..length])),
        };
        format!("this is not JSON: {what} belongs here, but {found}")
    }

    fn error(&self, start: usize, rule: String) -> JsonError {
        let length = self.source.json()[start..].chars().next().map_or(0, char::len_utf8);
        JsonError::syntax(self.source.span(start, start + length), rule)
    }
}

/// What a word without quotes is.
enum Word {
    /// A literal by the name that Python has for it.
    Literal { name: &'static str, strict: &'static str },
    /// A number that JSON cannot spell.
    NotFinite,
    /// None at all, or the beginning of a literal.
    Unfinished,
    /// Anything else: a string.
    Text,
}

impl Word {
    fn of(word: &str) -> Self {
        match word {
            "True" | "TRUE" => Self::Literal { name: "True", strict: "true" },
            "False" | "FALSE" => Self::Literal { name: "False", strict: "false" },
            "None" | "nil" => Self::Literal { name: "None", strict: "null" },
            _ if ["nan", "inf", "infinity"].contains(&word.to_lowercase().as_str()) => Self::NotFinite,
            // Of an empty word, too.
            _ if ["true", "false", "null"].iter().any(|known| known.starts_with(word)) => Self::Unfinished,
            _ => Self::Text,
        }
    }
}

/// What stands in single quotes at the beginning of a text, where it means the same in double ones.
fn in_single_quotes(text: &str) -> Option<&str> {
    let (inner, _) = text.strip_prefix('\'')?.split_once('\'')?;
    (!inner.contains(['"', '\\', '\n', '\r'])).then_some(inner)
}

/// Whether a word without quotes ends its value, by what stands behind it.
fn is_whole(behind: &str) -> bool {
    let behind = behind.trim_start_matches([' ', '\t']);
    behind.is_empty() || behind.starts_with(['\n', '\r', ',', '}', ']'])
}
