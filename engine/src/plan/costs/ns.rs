//! Times of a costs file: whole nanoseconds within bounds, refused at their place otherwise.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// The longest time of a costs file, eleven and a half days: whatever is longer was not measured.
pub(super) const TIME_NS_MAX: u64 = 1_000_000_000_000_000;

/// A time of a costs file that may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Nanoseconds(pub u64);

impl From<Duration> for Nanoseconds {
    /// Times of a run file end long before a `u64` does.
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        any(deserializer).map(Self)
    }
}

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
    /// The value itself is added where the text is at hand.
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
