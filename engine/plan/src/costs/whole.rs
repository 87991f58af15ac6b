//! Whole numbers of a costs file, refused at their place where they are out of bounds.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A whole number within bounds, both of them included.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// What it is, in words.
    pub(super) what: &'static str,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.what, self.least, self.most)
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<u64, E> {
        if (self.least..=self.most).contains(&found) {
            Ok(found)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(found), &self))
        }
    }
}

/// The longest time of a costs file, eleven and a half days: whatever is longer was not measured.
pub(super) const TIME_NS_MAX: u64 = 1_000_000_000_000_000;

const TIME: Whole = Whole { what: "a time in whole nanoseconds", least: 0, most: TIME_NS_MAX };

/// Reads a time that may be 0: a message's part, an overhead.
pub(super) fn any_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(TIME)
}

/// Reads a time that cannot be 0: a compute.
pub(super) fn positive_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(Whole { least: 1, ..TIME })
}

/// Reads a time that cannot be 0, where it was measured.
pub(super) fn measured_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    positive_ns(deserializer).map(Some)
}
