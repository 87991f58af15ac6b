//! An object is written as an object, a name as a name: the one form that each type has, and no other.
//!
//! `serde_json` takes a list for a struct (`["x", 2]` for `{"name": "x", "cores": 2}`), so that a key can no longer be told to
//! be missing, and `{"one": null}` for a name; and of an object that should have one key it says only that its text is no
//! JSON. A deserializer around its own settles that for every type at once. Rejected: a check in each struct, which the next
//! struct forgets.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// How the message of an object without a key begins; the names of which it has one follow.
pub(super) const NO_KEY: &str = "no key, one of ";
/// The same of an object with several.
pub(super) const SECOND_KEY: &str = "second key, one of ";
/// The message of an object that stands for a name.
pub(super) const KEY_FOR_NAME: &str = "key for a name";

/// Whatever leads to values, made strict: a deserializer, a visitor, the seed of a value, an access.
pub(super) struct Strict<T>(pub(super) T);

/// Methods of a deserializer that only hand on a strict visitor.
macro_rules! hand_on {
    ($($method:ident($($name:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Strict(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    hand_on! {
        deserialize_any()
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_i128()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_u128()
        deserialize_f32()
        deserialize_f64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_bytes()
        deserialize_byte_buf()
        deserialize_option()
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_identifier()
        deserialize_ignored_any()
    }

    /// An object, and no list of its values.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Strict(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Named { visitor, variants })
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.0.visit_bool(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.visit_u64(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.0.visit_i64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.0.visit_f64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.0.visit_str(value)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<V::Value, E> {
        self.0.visit_borrowed_str(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(object))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    /// Keys are texts, which have one form anyway.
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// Visits an enum: a name or, of a variant that holds something, an object of this one key.
struct Named<V> {
    visitor: V,
    variants: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Named<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        self.visitor.visit_enum(name)
    }

    /// Not by default, whose message would not tell that the bracket has been read.
    fn visit_seq<A: SeqAccess<'de>>(self, _list: A) -> Result<V::Value, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Other("a list"), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(OneKey { object, variants: self.variants })
    }
}

/// An object of which the only key names a variant and the value is what it holds.
struct OneKey<A> {
    object: A,
    variants: &'static [&'static str],
}

impl<A> OneKey<A> {
    fn error<E: Error>(&self, what: &str) -> E {
        let names: Vec<String> = self.variants.iter().map(|name| format!("`{name}`")).collect();
        E::custom(format_args!("{what}{}", names.join(", ")))
    }
}

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for OneKey<A> {
    type Error = A::Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<(S::Value, Self), A::Error> {
        match self.object.next_key_seed(seed)? {
            Some(variant) => Ok((variant, self)),
            None => Err(self.error(NO_KEY)),
        }
    }
}

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for OneKey<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        Err(A::Error::custom(KEY_FOR_NAME))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<S::Value, A::Error> {
        let held = self.object.next_value_seed(Strict(seed))?;
        match self.object.next_key::<IgnoredAny>()? {
            None => Ok(held),
            Some(_) => Err(self.error(SECOND_KEY)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.newtype_variant_seed(ListOf(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.newtype_variant_seed(ObjectOf(visitor))
    }
}

/// What a variant of several values holds, as a list.
struct ListOf<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for ListOf<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_seq(self.0)
    }
}

/// What a variant of several keys holds, as an object.
struct ObjectOf<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for ObjectOf<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_struct("", &[], self.0)
    }
}
