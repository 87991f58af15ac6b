//! Nodes into types, by serde: a mistake is told by the key's path, the value as it is written and the rule, at its place.
//!
//! Every type has one form: a struct is an object, never a list of its values; a variant without fields is a name, any other
//! one an object with one key.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::JsonError;
use super::nearest::nearest;
use super::node::{Entry, Node, Value};

impl Node {
    /// The value as a `T`.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        T::deserialize(self).map_err(|refusal| refusal.at(self))
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

    /// Of a value that is part of another one.
    fn inside(self, node: &Node, part: &str) -> Self {
        Self::Placed(Box::new(self.at(node).inside(part)))
    }

    fn at_key(self, entry: &Entry) -> Self {
        let error = |rule: String| JsonError::value(&entry.key_span, rule).inside(&entry.key);
        Self::Placed(Box::new(match self {
            Self::Unknown(known) => {
                let repair = match nearest(&entry.key, known.iter().copied()) {
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

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number => visit_number(self.span.written(), visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visitor.visit_seq(Elements { elements, index: 0 }),
            Value::Object(entries) => visitor.visit_map(Entries { rest: entries.iter(), read: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
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
        match self.value {
            Value::Array(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match &self.value {
            Value::String(name) => {
                let name: StrDeserializer<'_, Refusal> = name.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            Value::Object(entries) => match entries.as_slice() {
                [entry] => visitor.visit_enum(entry),
                [] => Err(Refusal::Rule(format!("has no key: it needs one of {}", names(variants)))),
                [_, second, ..] => {
                    let rule = "is a second key, and only one belongs here; keep one of the two";
                    Err(Refusal::Rule(rule.to_owned()).at_key(second))
                }
            },
            _ => Err(de::Error::invalid_type(Unexpected::Other(""), &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refusal> {
        match &self.value {
            Value::Array(elements) if elements.len() != len => {
                Err(Refusal::Rule(format!("has {} elements where {len} belong", elements.len())))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq map identifier
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
        _ => Err(Refusal::Rule("numbers end at 1.8e308; write a smaller one".to_owned())),
    }
}

struct Elements<'de> {
    elements: &'de [Node],
    index: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Refusal;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        let Some(node) = self.elements.get(self.index) else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(node).map(Some).map_err(|refusal| refusal.inside(node, &format!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len() - self.index)
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    /// The entry of which the key was read last.
    read: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Refusal;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refusal> {
        self.read = self.rest.next();
        let Some(entry) = self.read else { return Ok(None) };
        entry.read_key(seed).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        let entry = self.read.expect("serde asks for a value after its key");
        entry.newtype_variant_seed(seed)
    }
}

impl Entry {
    fn read_key<'de, S: DeserializeSeed<'de>>(&'de self, seed: S) -> Result<S::Value, Refusal> {
        let key: StrDeserializer<'_, Refusal> = self.key.as_str().into_deserializer();
        seed.deserialize(key).map_err(|refusal| refusal.at_key(self))
    }
}

/// The one key of an object, which names a variant, and what the variant holds.
impl<'de> EnumAccess<'de> for &'de Entry {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refusal> {
        Ok((self.read_key(seed)?, self))
    }
}

impl<'de> VariantAccess<'de> for &'de Entry {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        let rule = format!(
            "is a key, but the name alone belongs here; write \"{}\" in place of the object",
            self.key
        );
        Err(Refusal::Rule(rule).at_key(self))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refusal> {
        seed.deserialize(&self.node).map_err(|refusal| refusal.inside(&self.node, &self.key))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refusal> {
        let found = self.node.deserialize_tuple(len, visitor);
        found.map_err(|refusal| refusal.inside(&self.node, &self.key))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let found = self.node.deserialize_struct("", keys, visitor);
        found.map_err(|refusal| refusal.inside(&self.node, &self.key))
    }
}
