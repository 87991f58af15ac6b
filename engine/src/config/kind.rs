//! The types that a key of the run file may have: how each is read from JSON, and how the schema says it.

use schemars::{Schema, json_schema};

use super::source::{Node, Value};

/// A type of value.
pub(crate) trait Kind: Sized {
    /// The type in words, for "must be ...".
    fn expected() -> String;

    /// The type as JSON schema.
    fn schema() -> Schema;

    /// The value, or `None` where it has another type.
    fn read(node: &Node) -> Option<Self>;
}

/// Whole numbers may be spelled `8`, `8.0` or `8e0`, since JSON knows one type of number. Beyond 2^53 only plain
/// digits are exact.
impl Kind for u64 {
    fn expected() -> String {
        "a whole number".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "integer", "minimum": 0 })
    }

    fn read(node: &Node) -> Option<Self> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let Value::Number(text) = &node.value else { return None };
        text.parse().ok().or_else(|| {
            let value: f64 = text.parse().ok()?;
            (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)).then_some(value as u64)
        })
    }
}

impl Kind for usize {
    fn expected() -> String {
        u64::expected()
    }

    fn schema() -> Schema {
        u64::schema()
    }

    fn read(node: &Node) -> Option<Self> {
        u64::read(node).and_then(|value| value.try_into().ok())
    }
}

/// A finite number: JSON cannot spell the others, but `1e999` rounds to infinity.
impl Kind for f64 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "number" })
    }

    fn read(node: &Node) -> Option<Self> {
        let Value::Number(text) = &node.value else { return None };
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl Kind for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "boolean" })
    }

    fn read(node: &Node) -> Option<Self> {
        match node.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl Kind for String {
    fn expected() -> String {
        "a string".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl<T: Kind> Kind for Vec<T> {
    fn expected() -> String {
        format!("a list, each element {}", T::expected())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": T::schema() })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Array(elements) => elements.iter().map(T::read).collect(),
            _ => None,
        }
    }
}

impl Kind for (f64, f64) {
    fn expected() -> String {
        "a list of two numbers".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
    }

    fn read(node: &Node) -> Option<Self> {
        match Vec::read(node)?.as_slice() {
            [first, second] => Some((*first, *second)),
            _ => None,
        }
    }
}

/// A value, or the word `"auto"`, which stands for the formula that the key's documentation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auto<T> {
    Auto,
    Value(T),
}

impl<T> Auto<T> {
    /// The value, unless it is `"auto"`.
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T: Kind> Kind for Auto<T> {
    fn expected() -> String {
        format!("{} or \"auto\"", T::expected())
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [T::schema(), { "const": "auto" }] })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "auto" => Some(Self::Auto),
            _ => T::read(node).map(Self::Value),
        }
    }
}

/// Either of two types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

impl<A: Kind, B: Kind> Kind for Either<A, B> {
    fn expected() -> String {
        format!("{} or {}", A::expected(), B::expected())
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [A::schema(), B::schema()] })
    }

    fn read(node: &Node) -> Option<Self> {
        A::read(node).map(Self::First).or_else(|| B::read(node).map(Self::Second))
    }
}

/// A file's name in an object, `{"file": "..."}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileName(pub(crate) String);

impl Kind for FileName {
    fn expected() -> String {
        "{\"file\": \"...\"}".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "object",
            "properties": { "file": { "type": "string" } },
            "required": ["file"],
            "additionalProperties": false
        })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Object(entries) => match entries.as_slice() {
                [entry] if entry.key == "file" => String::read(&entry.node).map(Self),
                _ => None,
            },
            _ => None,
        }
    }
}
