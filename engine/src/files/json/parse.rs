//! Text to nodes: strict JSON (RFC 8259), every value with its place, no key twice.
//!
//! Not `serde_json`, which loses the places and keeps the last of two equal keys; nor `jsonc-parser`, which keeps places but
//! takes several times as long and lets control characters pass.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::JsonError;
use super::node::{Entry, Node, Value};
use super::source::{Source, Span};
use super::words::shorten;

impl Source {
    /// Where the value stands that a path leads to; the beginning where it leads to none.
    pub(crate) fn place_of(self: &Arc<Self>, path: &str) -> Span {
        let root = parse_first(self).ok();
        let found = root.as_ref().and_then(|root| root.find(path));
        found.map_or_else(|| self.span(0, 0), |node| node.span.clone())
    }
}

/// Lists and objects within each other at most: reading goes down by recursion.
const MAX_DEPTH: usize = 128;

/// Reads a source as one JSON value.
///
/// Errors: the first place where it is not JSON, or else every key that stands twice.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Vec<JsonError>> {
    parse_from(source, 0)
}

/// As [`parse`], with the first mistake alone.
pub(crate) fn parse_first(source: &Arc<Source>) -> Result<Node, JsonError> {
    parse(source).map_err(|mut errors| errors.swap_remove(0))
}

/// Reads the JSON value that a source holds from byte `offset` on (a `--set` argument, after its `=`).
pub(crate) fn parse_from(source: &Arc<Source>, offset: usize) -> Result<Node, Vec<JsonError>> {
    let mut parser = Parser::new(source, offset);
    let node = parser.whole(Parser::value).map_err(|error| vec![*error])?;
    if parser.doubled.is_empty() {
        return Ok(node);
    }
    parser.doubled.sort_by_key(|error| error.span.start);
    Err(parser.doubled)
}

pub(super) type Parsed<T> = Result<T, Box<JsonError>>;

/// Goes through a text from value to value.
pub(super) struct Parser<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) text: &'a str,
    /// The next byte.
    pub(super) at: usize,
    /// Lists and objects around it.
    depth: usize,
    /// Keys that stand twice in objects that became nodes.
    doubled: Vec<JsonError>,
}

/// A list or object that is being read.
pub(super) struct Parts {
    open: usize,
    close: u8,
    pub(super) num_read: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a Arc<Source>, at: usize) -> Self {
        Self { source, text: &source.text, at, depth: 0, doubled: Vec::new() }
    }

    /// Reads the one value of the text.
    pub(super) fn whole<T, E: From<Box<JsonError>>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.peek().is_none() {
            return Err(self.error(self.at, "the file is empty; it must hold one JSON object").into());
        }
        let value = read(self)?;
        if self.peek().is_some() { Err(self.expected("the end of the file").into()) } else { Ok(value) }
    }

    /// Reads a value.
    pub(super) fn value(&mut self) -> Parsed<Node> {
        let first = self.peek();
        let start = self.at;
        let value = match first {
            Some(b'{') => Value::Object(self.object()?),
            Some(b'[') => {
                let (mut parts, mut elements) = (self.open(b']')?, Vec::new());
                while self.next_part(&mut parts)? {
                    elements.push(self.part(|| format!("[{}]", parts.num_read - 1))?);
                }
                Value::Array(elements)
            }
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Value::Number
            }
            _ => self.literal()?.map_or(Value::Null, Value::Bool),
        };
        Ok(Node { value, span: self.source.span(start, self.at) })
    }

    fn object(&mut self) -> Parsed<Vec<Entry>> {
        let (mut parts, mut entries) = (self.open(b'}')?, Vec::new());
        while self.next_part(&mut parts)? {
            let (key, key_span) = self.key()?;
            let node = self.part(|| key.clone())?;
            entries.push(Entry { key, key_span, node });
        }
        let mut first = HashMap::new();
        for entry in &entries {
            let earlier = first.entry(entry.key.as_str()).or_insert(&entry.key_span);
            if earlier.start < entry.key_span.start {
                let (line, column) = earlier.line_column();
                let rule = format!("stands twice, first at {line}:{column}");
                let error = JsonError::value(&entry.key_span, rule).inside(&entry.key);
                self.doubled.push(error.repair("keep one of the two"));
            }
        }
        Ok(entries)
    }

    /// The value of a key or index.
    fn part(&mut self, name: impl FnOnce() -> String) -> Parsed<Node> {
        let num_doubled = self.doubled.len();
        let node = self.value()?;
        if self.doubled.len() > num_doubled {
            let (name, inner) = (name(), self.doubled.split_off(num_doubled));
            self.doubled.extend(inner.into_iter().map(|error| error.inside(&name)));
        }
        Ok(node)
    }

    /// Steps over the bracket that opens a list or object.
    pub(super) fn open(&mut self, close: u8) -> Parsed<Parts> {
        if self.depth == MAX_DEPTH {
            let rule = format!("lists and objects are more than {MAX_DEPTH} deep within each other");
            return Err(self.error(self.at, &rule));
        }
        self.depth += 1;
        self.at += 1;
        Ok(Parts { open: self.at - 1, close, num_read: 0 })
    }

    /// Whether a further part follows. Steps over the comma before it, or over the closing bracket.
    #[inline]
    pub(super) fn next_part(&mut self, parts: &mut Parts) -> Parsed<bool> {
        let comma = (parts.num_read > 0 && self.peek() == Some(b',')).then_some(self.at);
        self.at += usize::from(comma.is_some());
        match (self.peek(), comma) {
            (None, _) => Err(self.unclosed(parts)),
            (Some(found), Some(comma)) if found == parts.close => {
                Err(self.error(comma, "a comma behind the last part is not JSON; remove it"))
            }
            (Some(found), None) if found == parts.close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            (Some(_), None) if parts.num_read > 0 => {
                Err(self.expected(&format!("`,` or `{}`", char::from(parts.close))))
            }
            (Some(_), _) => {
                parts.num_read += 1;
                Ok(true)
            }
        }
    }

    #[cold]
    fn unclosed(&self, parts: &Parts) -> Box<JsonError> {
        let what = if parts.close == b']' { "list" } else { "object" };
        let close = char::from(parts.close);
        self.error(parts.open, &format!("this {what} is never closed: the text ends before its `{close}`"))
    }

    /// Reads a key and the colon behind it.
    pub(super) fn key(&mut self) -> Parsed<(String, Span)> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in quotes"));
        }
        let key = self.string()?;
        let span = self.source.span(start, self.at);
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.at += 1;
        Ok((key, span))
    }

    /// Reads `true`, `false`, or `null` as nothing.
    pub(super) fn literal(&mut self) -> Parsed<Option<bool>> {
        let word = self.word();
        let value = match word {
            "null" => None,
            "true" => Some(true),
            "false" => Some(false),
            _ => return Err(self.expected("a value")),
        };
        self.at += word.len();
        Ok(value)
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        let open = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            self.skip(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            text += &self.text[start..self.at];
            match self.text.as_bytes().get(self.at) {
                None => {
                    return Err(
                        self.error(open, "this string is never closed: the text ends before its `\"`")
                    );
                }
                Some(b'"') => break,
                Some(b'\\') => text.push(self.escaped()?),
                Some(control) => {
                    let rule = format!("a string holds the control character U+{control:04X}; escape it");
                    return Err(self.error(self.at, &rule));
                }
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escaped(&mut self) -> Parsed<char> {
        let start = self.at;
        self.at += 2;
        Ok(match self.text.as_bytes().get(start + 1) {
            Some(&same @ (b'"' | b'\\' | b'/')) => char::from(same),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let units = [start, start + 6].into_iter().map_while(|at| self.utf16_unit(at));
                let Some(Ok(character)) = char::decode_utf16(units).next() else {
                    return Err(
                        self.error(start, "`\\u` needs four hexadecimal digits, and of two halves both")
                    );
                };
                self.at = start + 6 * character.len_utf16();
                character
            }
            _ => return Err(self.error(start, "no such escape in a string; for a backslash write `\\\\`")),
        })
    }

    /// The value of the `\uXXXX` at `at`.
    fn utf16_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)
    }

    /// Reads a number, as it is spelled.
    pub(super) fn number(&mut self) -> Parsed<&'a str> {
        let start = self.at;
        self.eat(|byte| byte == b'-');
        if !self.eat(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.eat(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.eat(|byte| matches!(byte, b'e' | b'E')) {
            self.eat(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_digit());
        if self.at > start { Ok(()) } else { Err(self.expected("a digit")) }
    }

    /// Steps over the next byte if it is such.
    fn eat(&mut self, is_such: impl Fn(u8) -> bool) -> bool {
        let found = self.text.as_bytes().get(self.at).is_some_and(|&byte| is_such(byte));
        self.at += usize::from(found);
        found
    }

    /// Steps over bytes as long as they are such.
    fn skip(&mut self, is_such: impl Fn(u8) -> bool) {
        while self.eat(&is_such) {}
    }

    /// The next byte that is not white space, without stepping over it.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        self.text.as_bytes().get(self.at).copied()
    }

    /// The letters and digits here.
    pub(super) fn word(&self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    }

    #[cold]
    fn expected(&self, expected: &str) -> Box<JsonError> {
        let found = match (self.word(), self.text[self.at..].chars().next()) {
            (_, None) => "the text ends".to_owned(),
            (_, Some('/' | '#')) => return self.error(self.at, "comments are not JSON; remove it"),
            ("", Some(character)) => format!("`{}` stands there", shorten(&character.to_string())),
            (word, _) => format!("`{}` stands there", shorten(word)),
        };
        self.error(self.at, &format!("this is not JSON: {expected} belongs here, but {found}"))
    }

    #[cold]
    fn error(&self, start: usize, rule: &str) -> Box<JsonError> {
        let length = self.text[start..].chars().next().map_or(0, char::len_utf8);
        Box::new(JsonError::syntax(self.source.span(start, start + length), rule.to_owned()))
    }
}
