//! A time of a costs file, as a type.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::whole::any_ns;

/// A time of a costs file that may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanoseconds(#[serde(deserialize_with = "any_ns")] pub u64);

impl From<Duration> for Nanoseconds {
    /// Times of a run file end long before a `u64` does.
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}
