//! JSON into a type, with mistakes told in the file's words: the key's path, the value as it is written, the rule.
//!
//! `serde_json` says what Rust's type would have been (`expected u64`), and where it noticed. The text is parsed a second
//! time, places kept, but only to tell a mistake.

mod forms;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use self::forms::{KEY_FOR_NAME, NO_KEY, SECOND_KEY, Strict};

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub(crate) place: LineColumn,
    /// Key, value and rule.
    pub(crate) message: String,
}

/// A place, both counted from 1; columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineColumn {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The text without the mark that some editors put before all others.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads a text as a value of a type.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = T::deserialize(Strict(&mut json)).and_then(|found| json.end().map(|()| found));
    found.map_err(|error| told(text, &error))
}

/// Where a key's value stands, by its path, such as `units[0].layers`; the beginning where it stands nowhere.
pub(crate) fn place_of(text: &str, path: &str) -> LineColumn {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let value = parsed.ok().and_then(|parsed| parsed.value);
    LineColumn::of(text, value.and_then(|value| start_of(&value, path, "")).unwrap_or(0))
}

impl LineColumn {
    fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Self { line, column: offset - line_start + 1 }
    }
}

/// The innermost key or value around a place.
struct Found {
    path: String,
    /// As it is written, if it is short.
    written: String,
    start: usize,
}

fn told(text: &str, error: &serde_json::Error) -> JsonError {
    let (line, column) = (error.line(), error.column());
    let full = error.to_string();
    let message = full.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&full);
    let is_syntax = matches!(error.classify(), Category::Syntax | Category::Eof);
    if is_syntax && message != TOO_LARGE {
        let message = format!("this is not JSON: {}", syntax(message));
        return JsonError { place: LineColumn { line, column: column.max(1) }, message };
    }
    // The parser's column is that of the last byte that it has read.
    let line_start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let mut offset = line_start + column;
    // Where a list or an object is not even begun, it has not read the bracket.
    let bracket = text.as_bytes().get(offset);
    if (message.starts_with("invalid type: map") && bracket == Some(&b'{'))
        || (message.starts_with("invalid type: sequence") && bracket == Some(&b'['))
    {
        offset += 1;
    }
    let value = match parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()) {
        Ok(parsed) => parsed.value,
        // It bounds what is nested, and no file that is read here comes near.
        Err(error) => {
            let message = format!("this cannot be read: {}", error.kind().to_string().to_lowercase());
            return JsonError { place: LineColumn::of(text, error.range().start), message };
        }
    };
    match value.map(|value| innermost(text, &value, offset, String::new())) {
        Some(found) => JsonError { place: LineColumn::of(text, found.start), message: rule(message, &found) },
        None => JsonError { place: LineColumn { line, column: column.max(1) }, message: message.to_owned() },
    }
}

/// The parser's word for a number that no `f64` holds.
const TOO_LARGE: &str = "number out of range";

/// What the parser says of a text that is no JSON, in words that say what to look for.
fn syntax(message: &str) -> String {
    match message {
        "EOF while parsing a value" => "the text ends where a value belongs".to_owned(),
        "EOF while parsing an object" => "the text ends within an object".to_owned(),
        "EOF while parsing a list" => "the text ends within a list".to_owned(),
        "EOF while parsing a string" => "the text ends within a string".to_owned(),
        "expected value" => "a value belongs here".to_owned(),
        "key must be a string" => "a key in quotes belongs here, or the comma before it does not".to_owned(),
        "trailing comma" => "the comma before this has nothing behind it".to_owned(),
        "trailing characters" => "its one object has ended before this".to_owned(),
        other => other.to_owned(),
    }
}

/// The parser's message about a value, with the key's path, the value, and the rule without the names of types.
fn rule(message: &str, found: &Found) -> String {
    let Found { path, written, .. } = found;
    let named = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
    let quoted = |what: &str| message.strip_prefix(what)?.split_once('`');
    if let Some((_, expected)) = quoted("unknown field `") {
        let keys = names(expected);
        return format!("{named} is no key: there are {keys}; rename or remove it");
    }
    if let Some((key, _)) = quoted("missing field `") {
        return format!("{named} lacks the key `{key}`; add it");
    }
    if quoted("duplicate field `").is_some() {
        return format!("{named} stands twice; keep one of the two");
    }
    if let Some((_, expected)) = quoted("unknown variant `") {
        return format!("{named} is {written}, and known are {}; write one of these", names(expected));
    }
    if let Some(names) = message.strip_prefix(NO_KEY) {
        return format!("{named} has no key, and it has one of {names}; add one");
    }
    if let Some(names) = message.strip_prefix(SECOND_KEY) {
        return format!("{named} is a second key, and there is one of {names}; keep one of the two");
    }
    if message == KEY_FOR_NAME {
        return format!(
            "{named} is a key, but the name alone is meant: write {written} in place of the object"
        );
    }
    if message == TOO_LARGE {
        return format!("{named} is {written}, but numbers end at 1.8e308; write a smaller one");
    }
    let is_value = message.starts_with("invalid ");
    match message.rsplit_once(", expected ").filter(|_| is_value) {
        Some((_, expected)) => format!("{named} is {written}, but must be {}", in_words(expected)),
        None => format!("{named}: {message}"),
    }
}

/// The names of which one was expected.
fn names(expected: &str) -> String {
    expected.trim_start_matches(", expected ").trim_start_matches("one of ").replace("` or `", "`, `")
}

/// What was expected, as a reader of JSON calls it.
fn in_words(expected: &str) -> String {
    match expected {
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => format!("a whole number from 0 to {}", u64::MAX),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "newtype variant" | "tuple variant" | "struct variant" => {
            "an object with this as its one key".to_owned()
        }
        of if of.starts_with("struct ") => "an object".to_owned(),
        of if of.starts_with("tuple ") => "a list".to_owned(),
        of if of.starts_with("enum ") => "a name, or an object of one key".to_owned(),
        other => other.to_owned(),
    }
}

fn innermost(text: &str, value: &Value<'_>, offset: usize, path: String) -> Found {
    let holds = |start: usize, end: usize| start < offset && offset <= end;
    let range = value.range();
    match value {
        Value::Object(object) => {
            for property in &object.properties {
                let (name, inner) = (property.name.range(), property.value.range());
                let path = || join(&path, property.name.as_str());
                if holds(name.start, name.end) {
                    let written = short(&text[name.start..name.end]);
                    return Found { path: path(), written, start: name.start };
                }
                if holds(inner.start, inner.end) {
                    return innermost(text, &property.value, offset, path());
                }
            }
        }
        Value::Array(array) => {
            for (index, element) in array.elements.iter().enumerate() {
                if holds(element.start(), element.end()) {
                    return innermost(text, element, offset, format!("{path}[{index}]"));
                }
            }
        }
        Value::StringLit(_) | Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => {}
    }
    let written = match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        _ => short(&text[range.start..range.end]),
    };
    Found { path, written, start: range.start }
}

fn start_of(value: &Value<'_>, wanted: &str, path: &str) -> Option<usize> {
    if path == wanted {
        return Some(value.start());
    }
    // Only what the path leads through is walked.
    if !wanted.starts_with(path) {
        return None;
    }
    match value {
        Value::Object(object) => {
            let mut properties = object.properties.iter();
            properties.find_map(|of| start_of(&of.value, wanted, &join(path, of.name.as_str())))
        }
        Value::Array(array) => {
            let mut elements = array.elements.iter().enumerate();
            elements.find_map(|(index, element)| start_of(element, wanted, &format!("{path}[{index}]")))
        }
        Value::StringLit(_) | Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => None,
    }
}

fn join(path: &str, key: &str) -> String {
    let key = short(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// On one line, without anything that a terminal would take for a command.
fn short(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let head: String = characters.by_ref().take(40).collect();
    if characters.next().is_some() { head + "..." } else { head }
}

#[cfg(test)]
mod tests;
