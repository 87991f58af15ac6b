//! The types that a key of the run file may have: how each is read from JSON, and how the schema says it.

use pipezero_files::json::{Node, Source, Value, parse, shorten};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::place::Place;
use super::whole_number::{self, NotWhole};

/// A type of value.
pub(crate) trait Kind: Sized {
    /// Whether null stands for an absent key, as in DeepSpeed's batch keys.
    const NULL_IS_ABSENT: bool = false;

    /// Values of this type that a list has at most.
    const MOST_IN_LIST: usize = usize::MAX;

    /// The type in words, for "must be ...".
    fn expected() -> String;

    /// A value, as JSON, to show its form in a repair.
    fn example() -> String;

    /// The type as JSON schema.
    fn schema() -> Schema;

    /// The value, or `None` where it has another type.
    fn read(node: &Node) -> Option<Self>;

    /// What is wrong, and where, with a value that could not be read although it is of this type as a reader sees it: a
    /// number out of range, an object with a wrong key. `None` where it has another type.
    fn fault(_node: &Node, _place: &Place) -> Option<(Place, Problem)> {
        None
    }
}

/// A fault of the value itself.
pub(crate) fn rule(place: &Place, value: &str, rule: &str, repair: &str) -> (Place, Problem) {
    let problem = Problem::Rule { value: shorten(value), rule: rule.to_owned(), repair: repair.to_owned() };
    (place.clone(), problem)
}

/// What a string is without its quotes, where it is then a number that is such a value.
pub(crate) fn unquoted<T: Kind>(node: &Node) -> Option<String> {
    let Value::String(text) = &node.value else { return None };
    let bare = parse(&Source::argument(text.trim())).ok().filter(|bare| bare.number().is_some())?;
    T::read(&bare).map(|_| text.trim().to_owned())
}

/// The fault of an unknown word of a key that may be something else than a word: it says all that the key may be.
pub(crate) fn among_others((place, problem): (Place, Problem), expected: String) -> (Place, Problem) {
    let problem = match problem {
        Problem::Rule { value, rule, repair }
            if value.starts_with('"') && rule.starts_with("it must be \"") =>
        {
            Problem::Rule { value, rule: format!("it must be {expected}"), repair }
        }
        other => other,
    };
    (place, problem)
}

/// A value that could not be read, with what to write: what its form shows was meant, or else the default or an example.
pub(crate) fn wrong_type<T: Kind>(node: &Node, default: &str) -> Problem {
    let expected = T::expected();
    let mut replacement = None;
    let mut instead = |text: String, words: &str| {
        let repair = format!("write {text}{words}");
        replacement = Some(text);
        Some(repair)
    };
    let repair = match &node.value {
        Value::String(text) if text.eq_ignore_ascii_case("auto") && expected.contains("\"auto\"") => {
            instead("\"auto\"".to_owned(), "")
        }
        Value::String(text) if text.eq_ignore_ascii_case("auto") => {
            Some("this key has no \"auto\": write a value, or leave it out if it has a default".to_owned())
        }
        Value::String(_) if let Some(number) = unquoted::<T>(node) => instead(number, ", without quotes"),
        Value::String(text) if expected.contains("true or false") => {
            let word = text.to_lowercase();
            let is_word = ["true", "false"].contains(&word.as_str());
            if is_word { instead(word, ", without quotes") } else { None }
        }
        Value::Number if expected.contains("whole number") => node
            .number()
            .and_then(|text| text.parse::<f64>().ok())
            .map(|value| format!("write {}", value.round())),
        Value::Number if expected.contains("true or false") => match node.number() {
            Some("0") => instead("false".to_owned(), ""),
            Some("1") => instead("true".to_owned(), ""),
            _ => Some("write true".to_owned()),
        },
        Value::Number if expected.contains("a string") => instead(format!("\"{}\"", node.span.written()), ""),
        _ => None,
    };
    let repair = repair.unwrap_or_else(|| {
        // Defaults are JSON or words about other keys.
        let is_json = serde_json::from_str::<serde_json::Value>(default).is_ok();
        let example = if is_json && default != "\"auto\"" { default.to_owned() } else { T::example() };
        format!("write a value such as {example}")
    });
    let found = match node.value {
        Value::Array(_) => format!("the list {}", shorten(node.span.written())),
        _ => node.describe(),
    };
    Problem::WrongType { expected, found, repair, replacement }
}

/// Whole numbers may be spelled `8`, `8.0` or `8e0`, since JSON knows one type of number.
impl Kind for u64 {
    fn expected() -> String {
        "a whole number".to_owned()
    }

    fn example() -> String {
        "8".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "integer", "minimum": 0 })
    }

    fn read(node: &Node) -> Option<Self> {
        whole_number::read(node.number()?).ok()
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let text = node.number()?;
        match whole_number::read(text).err()? {
            NotWhole::Fraction => None,
            NotWhole::Negative => Some(rule(place, text, "it must not be negative", "use a positive number")),
            NotWhole::TooLarge => Some(rule(
                place,
                text,
                "whole numbers end at 2^64 - 1, which is 18446744073709551615",
                "use a smaller one",
            )),
        }
    }
}

impl Kind for usize {
    const NULL_IS_ABSENT: bool = true;

    fn expected() -> String {
        u64::expected()
    }

    fn example() -> String {
        u64::example()
    }

    fn schema() -> Schema {
        u64::schema()
    }

    fn read(node: &Node) -> Option<Self> {
        u64::read(node).and_then(|value| value.try_into().ok())
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        u64::fault(node, place)
    }
}

/// A finite number: JSON cannot spell the others, but `1e999` rounds to infinity, and `1e-999` to 0.
impl Kind for f64 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn example() -> String {
        "0.1".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "number" })
    }

    fn read(node: &Node) -> Option<Self> {
        let text = node.number()?;
        text.parse().ok().filter(|value: &f64| value.is_finite() && (*value != 0.0 || is_zero(text)))
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let text = node.number()?;
        if text.parse() == Ok(0.0) {
            return Some(rule(
                place,
                text,
                "the smallest number above 0 is 4.9e-324",
                "use 0, or a number further from 0",
            ));
        }
        Some(rule(place, text, "numbers must lie between -1.8e308 and 1.8e308", "use a number nearer to 0"))
    }
}

/// Whether a number is 0 as it is spelled, and not only because it is rounded.
fn is_zero(text: &str) -> bool {
    let digits = text.split(['e', 'E']).next().unwrap_or(text);
    digits.bytes().all(|byte| !(b'1'..=b'9').contains(&byte))
}

impl Kind for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn example() -> String {
        "true".to_owned()
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

    fn example() -> String {
        "\"...\"".to_owned()
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

    fn example() -> String {
        format!("[{}]", T::example())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "array", "items": T::schema() })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Array(elements) if elements.len() <= T::MOST_IN_LIST => {
                elements.iter().map(T::read).collect()
            }
            _ => None,
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let Value::Array(elements) = &node.value else { return None };
        if elements.len() > T::MOST_IN_LIST {
            let value = format!("a list of {} entries", elements.len());
            let most = format!("it has at most {}", T::MOST_IN_LIST);
            return Some(rule(place, &value, &most, &format!("join some, as in {}", T::example())));
        }
        let unread = elements.iter().enumerate().find(|(_, element)| T::read(element).is_none());
        let (index, element) = unread?;
        let place = Place { path: format!("{}[{index}]", place.path), span: element.span.clone() };
        Some(T::fault(element, &place).unwrap_or_else(|| (place, wrong_type::<T>(element, ""))))
    }
}

impl Kind for (f64, f64) {
    fn expected() -> String {
        "a list of two numbers".to_owned()
    }

    fn example() -> String {
        "[0.9, 0.95]".to_owned()
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

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        Vec::<f64>::fault(node, place)
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

    fn example() -> String {
        T::example()
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [T::schema(), { "const": "auto" }] })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::String(text) if text == "auto" => Some(Self::Auto),
            Value::Null if T::NULL_IS_ABSENT => Some(Self::Auto),
            _ => T::read(node).map(Self::Value),
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        T::fault(node, place)
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

    fn example() -> String {
        A::example()
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [A::schema(), B::schema()] })
    }

    fn read(node: &Node) -> Option<Self> {
        A::read(node).map(Self::First).or_else(|| B::read(node).map(Self::Second))
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        if unquoted::<Self>(node).is_some() {
            // Not an unknown word, but the wrong type, for which the number is written.
            return None;
        }
        A::fault(node, place)
            .or_else(|| B::fault(node, place))
            .map(|fault| among_others(fault, Self::expected()))
    }
}
