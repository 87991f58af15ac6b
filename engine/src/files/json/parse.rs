//! Text to nodes: strict JSON (RFC 8259), every value with its place, no key twice.
//!
//! Not `serde_json`, which loses the places and keeps the last of two equal keys; nor `jsonc-parser`, which keeps places but
//! takes several times as long and lets control characters pass.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::JsonError;
use super::node::{Entry, Node, Value, shorten};
use super::source::Source;

/// Lists and objects within each other at most: reading goes down by recursion.
const MAX_DEPTH: usize = 128;

/// Reads a source as one JSON value.
///
/// Errors: the first place where it is not JSON, or else every key that stands twice.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Vec<JsonError>> {
    parse_from(source, 0)
}

/// Reads the text of the file `name`, and reports the first mistake alone.
pub(crate) fn parse_file(name: &str, text: &str) -> Result<Node, JsonError> {
    parse(&Source::file(name, text)).map_err(|mut errors| errors.swap_remove(0))
}

/// Reads the JSON value that a source holds from byte `offset` on (a `--set` argument, after its `=`).
pub(crate) fn parse_from(source: &Arc<Source>, offset: usize) -> Result<Node, Vec<JsonError>> {
    let mut parser = Parser { source, text: &source.text, at: offset, doubled: Vec::new() };
    let node = parser.document().map_err(|error| vec![*error])?;
    if parser.doubled.is_empty() {
        return Ok(node);
    }
    parser.doubled.sort_by_key(|error| error.span.start);
    Err(parser.doubled)
}

type Parsed<T> = Result<T, Box<JsonError>>;

struct Parser<'a> {
    source: &'a Arc<Source>,
    text: &'a str,
    /// The next byte.
    at: usize,
    doubled: Vec<JsonError>,
}

impl Parser<'_> {
    fn document(&mut self) -> Parsed<Node> {
        if self.peek().is_none() {
            return Err(self.error(self.at, "the file is empty; it must hold one JSON object"));
        }
        let node = self.value(0)?;
        if self.peek().is_some() { Err(self.expected("the end of the file")) } else { Ok(node) }
    }

    fn value(&mut self, depth: usize) -> Parsed<Node> {
        let first = self.peek();
        let start = self.at;
        let value = match first {
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => {
                let value = match self.word() {
                    "null" => Value::Null,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => return Err(self.expected("a value")),
                };
                self.at += self.word().len();
                value
            }
        };
        Ok(Node { value, span: self.source.span(start, self.at) })
    }

    fn array(&mut self, depth: usize) -> Parsed<Vec<Node>> {
        let unclosed = "this list is never closed: the text ends before its `]`";
        self.parts(depth, b']', unclosed, |parser, index| parser.part(depth, || format!("[{index}]")))
    }

    fn object(&mut self, depth: usize) -> Parsed<Vec<Entry>> {
        let unclosed = "this object is never closed: the text ends before its `}`";
        let entries = self.parts(depth, b'}', unclosed, |parser, _| {
            let start = parser.at;
            if parser.peek() != Some(b'"') {
                return Err(parser.expected("a key in quotes"));
            }
            let key = parser.string()?;
            let key_span = parser.source.span(start, parser.at);
            if parser.peek() != Some(b':') {
                return Err(parser.expected("`:`"));
            }
            parser.at += 1;
            let node = parser.part(depth, || key.clone())?;
            Ok(Entry { key, key_span, node })
        })?;
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
    fn part(&mut self, depth: usize, name: impl FnOnce() -> String) -> Parsed<Node> {
        let num_doubled = self.doubled.len();
        let node = self.value(depth + 1)?;
        if self.doubled.len() > num_doubled {
            let (name, inner) = (name(), self.doubled.split_off(num_doubled));
            self.doubled.extend(inner.into_iter().map(|error| error.inside(&name)));
        }
        Ok(node)
    }

    /// The parts between a bracket and `close`, with commas between them.
    fn parts<T>(
        &mut self,
        depth: usize,
        close: u8,
        unclosed: &str,
        mut part: impl FnMut(&mut Self, usize) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let open = self.at;
        if depth == MAX_DEPTH {
            let rule = format!("lists and objects are more than {MAX_DEPTH} deep within each other");
            return Err(self.error(open, &rule));
        }
        let (mut parts, mut comma) = (Vec::new(), None);
        self.at += 1;
        loop {
            match (self.peek(), comma) {
                (None, _) => return Err(self.error(open, unclosed)),
                (Some(found), Some(comma)) if found == close => {
                    return Err(self.error(comma, "a comma behind the last part is not JSON; remove it"));
                }
                (Some(found), None) if found == close => break,
                (Some(_), _) => {
                    let part = part(self, parts.len())?;
                    parts.push(part);
                }
            }
            match self.peek() {
                None => return Err(self.error(open, unclosed)),
                Some(found) if found == close => break,
                Some(b',') => comma = Some(self.at),
                Some(_) => return Err(self.expected(&format!("`,` or `{}`", char::from(close)))),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(parts)
    }

    fn string(&mut self) -> Parsed<String> {
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

    fn number(&mut self) -> Parsed<Value> {
        self.eat(b"-");
        if !self.eat(b"0") {
            self.digits()?;
        }
        if self.eat(b".") {
            self.digits()?;
        }
        if self.eat(b"eE") {
            self.eat(b"+-");
            self.digits()?;
        }
        Ok(Value::Number)
    }

    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_digit());
        if self.at > start { Ok(()) } else { Err(self.expected("a digit")) }
    }

    /// Steps over the next byte if it is one of these.
    fn eat(&mut self, any: &[u8]) -> bool {
        let is_any = self.text.as_bytes().get(self.at).is_some_and(|byte| any.contains(byte));
        self.at += usize::from(is_any);
        is_any
    }

    /// Steps over bytes as long as they are such.
    fn skip(&mut self, is_such: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|&byte| !is_such(byte)).unwrap_or(rest.len());
    }

    /// The next byte that is no white space, without stepping over it.
    fn peek(&mut self) -> Option<u8> {
        self.skip(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        self.text.as_bytes().get(self.at).copied()
    }

    /// The letters and digits here.
    fn word(&self) -> &str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    }

    fn expected(&self, expected: &str) -> Box<JsonError> {
        let found = match (self.word(), self.text[self.at..].chars().next()) {
            (_, None) => "the text ends".to_owned(),
            (_, Some('/' | '#')) => return self.error(self.at, "comments are not JSON; remove it"),
            ("", Some(character)) => format!("`{}` stands there", shorten(&character.to_string())),
            (word, _) => format!("`{}` stands there", shorten(word)),
        };
        self.error(self.at, &format!("this is not JSON: {expected} belongs here, but {found}"))
    }

    fn error(&self, start: usize, rule: &str) -> Box<JsonError> {
        let length = self.text[start..].chars().next().map_or(0, char::len_utf8);
        Box::new(JsonError::syntax(self.source.span(start, start + length), rule.to_owned()))
    }
}
