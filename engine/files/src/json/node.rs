//! JSON values, each with its place.

use super::source::Span;
use super::words::shorten;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place.
    pub span: Span,
}

/// A JSON value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// [`Node::number`] says how it is spelled.
    Number,
    /// A string, without its escapes.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object, in the order of the text.
    Object(Vec<Entry>),
}

/// A key, its place and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key, without its escapes.
    pub key: String,
    /// The key's place, quotes included.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// A number as it is spelled.
    pub fn number(&self) -> Option<&str> {
        matches!(self.value, Value::Number).then(|| self.span.written())
    }

    /// The value in words, for "but is ...".
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number => shorten(self.span.written()),
            Value::String(text) => format!("the string \"{}\"", shorten(text)),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        }
    }

    /// The value that a path such as `units[0].layers` leads to, of keys without dots and brackets.
    pub fn find(&self, path: &str) -> Option<&Self> {
        let mut node = self;
        for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
            node = match &node.value {
                Value::Object(entries) => &entries.iter().find(|entry| entry.key == part)?.node,
                Value::Array(elements) => elements.get(part.strip_suffix(']')?.parse::<usize>().ok()?)?,
                Value::Null | Value::Bool(_) | Value::Number | Value::String(_) => return None,
            };
        }
        Some(node)
    }
}
