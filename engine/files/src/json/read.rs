//! Text into types, by serde: a mistake is reported with the key's path, the value as written and the rule, at its place.
//!
//! Every type has one form: a struct is an object, never a list of its values; a variant without fields is a name, any other
//! one an object with one key.

use std::collections::HashSet;
use std::sync::Arc;

use jiter::Peek;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::JsonError;
use super::nearest::nearest;
use super::node::Node;
use super::parse::{Parser, parse_first};
use super::source::{Source, Span};

impl Source {
    /// The text as a `T`. No nodes are made but of what is refused: a large file takes no more memory than its value.
    ///
    /// Errors: the text is not JSON, or holds a key twice; or else the first value that is not as `T` needs it.
    pub fn read<T: DeserializeOwned>(self: &Arc<Self>) -> Result<T, JsonError> {
        let mut parser = Parser::new(self, 0);
        let found = parser.whole(|parser| parser.read(std::marker::PhantomData));
        found.map_err(|refusal: Refusal| match (parse_first(self), refusal) {
            (Err(error), _) => error,
            (Ok(root), refusal) => refusal.at(&root),
        })
    }
}

/// Why a value was refused. serde makes these without knowing of which value; the node or key adds itself and its place.
#[derive(Debug, thiserror::Error)]
#[error("a JSON value was refused")]
pub(crate) enum Refusal {
    /// Something else must stand there.
    Expected(String),
    /// A key or name is none of these.
    Unknown(&'static [&'static str]),
    /// The object lacks this key.
    Missing(&'static str),
    /// The value breaks this rule.
    Rule(String),
    /// All is known.
    Placed(Box<JsonError>),
}

impl Refusal {
    fn at(self, node: &Node) -> JsonError {
        let error = |rule| JsonError::value(&node.span, rule);
        match self {
            Self::Expected(expected) => error(format!("must be {expected}, but is {}", node.describe())),
            Self::Unknown(known) => error(format!("must be {}, but is {}", names(known), node.describe())),
            Self::Missing(key) => error("is missing".to_owned()).inside(key).repair("add it"),
            Self::Rule(rule) => error(format!("is {}, but {rule}", node.describe())),
            Self::Placed(error) => *error,
        }
    }

    fn inside(self, part: &str) -> Self {
        match self {
            Self::Placed(error) => Self::Placed(Box::new(error.inside(part))),
            other => other,
        }
    }

    fn at_key(self, key: &str, span: &Span) -> Self {
        let error = |rule: String| JsonError::value(span, rule).inside(key);
        Self::Placed(Box::new(match self {
            Self::Unknown(known) => {
                let repair = match nearest(key, known.iter().copied()) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("remove it, or write {}", names(known)),
                };
                error("is an unknown key".to_owned()).repair(repair)
            }
            Self::Rule(rule) => error(rule),
            Self::Expected(_) | Self::Missing(_) | Self::Placed(_) => return self,
        }))
    }
}

impl From<Box<JsonError>> for Refusal {
    fn from(error: Box<JsonError>) -> Self {
        Self::Placed(error)
    }
}

/// The names as a choice: "`a`, `b` or `c`".
fn names(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest @ [_, ..])) => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

impl de::Error for Refusal {
    fn custom<T: std::fmt::Display>(rule: T) -> Self {
        Self::Rule(rule.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Expected(in_words(&expected.to_string()))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(found: usize, _: &dyn Expected) -> Self {
        Self::Rule(format!("has {found} elements and needs more"))
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(known)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(known)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Missing(key)
    }
}

/// What serde expects, as a reader of JSON calls it.
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

impl<'a> Parser<'a> {
    /// Begins the object that comes next.
    fn entries(&mut self) -> Result<Entries<'_, 'a>, Refusal> {
        self.enter()?;
        Ok(Entries { parser: self, key: String::new(), seen: HashSet::new() })
    }

    /// Reads a value. What is wrong with it is reported at its place.
    fn read<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        self.peek()?;
        let start = self.at();
        seed.deserialize(&mut *self).map_err(|refusal| match refusal {
            Refusal::Placed(_) => refusal,
            refusal => match Parser::new(self.source, start).value() {
                Ok(node) => Refusal::Placed(Box::new(refusal.at(&node))),
                Err(error) => Refusal::Placed(error),
            },
        })
    }
}

impl<'de> Deserializer<'de> for &mut Parser<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.peek()? {
            Peek::Object => visitor.visit_map(self.entries()?),
            Peek::Array => {
                self.enter()?;
                let mut elements = Elements { parser: self, is_done: false };
                let value = visitor.visit_seq(&mut elements)?;
                match elements.is_done {
                    true => Ok(value),
                    false => match elements.parser.next_element()? {
                        None => Ok(value),
                        Some(num_read) => Err(Refusal::Rule(format!("has more than {num_read} elements"))),
                    },
                }
            }
            Peek::String => visitor.visit_string(self.string()?),
            kind @ (Peek::True | Peek::False) => visitor.visit_bool(self.bool(kind)?),
            Peek::Null => self.null().map_err(Refusal::from).and_then(|()| visitor.visit_unit()),
            kind => visit_number(self.number(kind)?, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if self.peek()? != Peek::Null {
            return visitor.visit_some(self);
        }
        self.null()?;
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.peek()? {
            Peek::Array => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Asked for by a variant without fields that was written as the key of an object.
    fn deserialize_unit<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        let rule = "the name alone belongs here; write it in place of the object";
        Err(Refusal::Rule(rule.to_owned()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.peek()? {
            Peek::String => visitor.visit_enum(self.string()?.into_deserializer()),
            Peek::Object => {
                let is_empty = self.source.text[self.at() + 1..].trim_ascii_start().starts_with('}');
                if is_empty {
                    return Err(Refusal::Rule(format!("has no key: it needs one of {}", names(variants))));
                }
                let value = visitor.visit_enum(MapAccessDeserializer::new(self.entries()?))?;
                let Some((key, span)) = self.next_key()? else { return Ok(value) };
                let rule = "is a second key, and only one belongs here; keep one of the two";
                Err(Refusal::Rule(rule.to_owned()).at_key(&key, &span))
            }
            _ => Err(de::Error::invalid_type(Unexpected::Other(""), &visitor)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

fn visit_number<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Refusal> {
    if let Ok(number) = text.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number @ ..0) = text.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => visitor.visit_f64(number),
        _ => Err(Refusal::Rule(
            "numbers must lie between -1.8e308 and 1.8e308; write one nearer to 0".to_owned(),
        )),
    }
}

struct Elements<'p, 'a> {
    parser: &'p mut Parser<'a>,
    is_done: bool,
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, '_> {
    type Error = Refusal;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        let Some(index) = self.parser.next_element()? else {
            self.is_done = true;
            return Ok(None);
        };
        self.parser.read(seed).map(Some).map_err(|refusal| refusal.inside(&format!("[{index}]")))
    }
}

struct Entries<'p, 'a> {
    parser: &'p mut Parser<'a>,
    /// The key that was read last.
    key: String,
    seen: HashSet<String>,
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Refusal;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        let Some((key, span)) = self.parser.next_key()? else { return Ok(None) };
        self.key = key;
        if !self.seen.insert(self.key.clone()) {
            // Where the first stands is found with all other keys that stand twice.
            return Err(Refusal::Rule("stands twice".to_owned()).at_key(&self.key, &span));
        }
        read_key(&self.key, &span, seed).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        self.parser.read(seed).map_err(|refusal| refusal.inside(&self.key))
    }
}

fn read_key<'de, S: DeserializeSeed<'de>>(key: &str, span: &Span, seed: S) -> Result<S::Value, Refusal> {
    let text: StrDeserializer<'_, Refusal> = key.into_deserializer();
    seed.deserialize(text).map_err(|refusal| refusal.at_key(key, span))
}
