//! Times of a costs file: whole nanoseconds within bounds, refused at their place otherwise.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// The longest time of a costs file, eleven and a half days: whatever is longer was not measured.
pub(super) const TIME_NS_MAX: u64 = 1_000_000_000_000_000;

/// Reads a time that may be 0: a message's part, an overhead.
pub(super) fn any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Bounds { least: 0 })
}

/// Reads a time that cannot be 0: a compute.
pub(super) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Bounds { least: 1 })
}

/// Reads a time that cannot be 0, where it was measured.
pub(super) fn measured<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    positive(deserializer).map(Some)
}

/// A whole number from `least` to [`TIME_NS_MAX`].
#[derive(Clone, Copy)]
struct Bounds {
    least: u64,
}

impl Bounds {
    /// The value itself is told by whoever has the text.
    fn refuse<T, E: Error>(self) -> Result<T, E> {
        Err(E::invalid_value(Unexpected::Other("another number"), &self))
    }
}

impl<'de> Visitor<'de> for Bounds {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a time in whole nanoseconds from {} to {TIME_NS_MAX}", self.least)
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<u64, E> {
        if (self.least..=TIME_NS_MAX).contains(&found) { Ok(found) } else { self.refuse() }
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<u64, E> {
        match u64::try_from(found) {
            Ok(found) => self.visit_u64(found),
            Err(_) => self.refuse(),
        }
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<u64, E> {
        self.refuse()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<u64, A::Error> {
        self.refuse()
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<u64, A::Error> {
        self.refuse()
    }
}
