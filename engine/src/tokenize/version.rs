//! The version of an input: what tells, without reading it, whether a file is the one that it was.

use std::fmt;
use std::path::Path;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// A file's length, and when it was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Bytes.
    pub num_bytes: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub changed_ns: u64,
}

impl Version {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self { num_bytes: found.len(), changed_ns: changed.map_or(0, |since| since.as_nanos() as u64) })
    }
}

impl fmt::Display for Version {
    /// `120 bytes, changed 2024-02-29 23:59:59.5 UTC`; all digits of the second, so that two moments never look the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NS: u64 = 1_000_000_000;
        let seconds = self.changed_ns / NS;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let fraction = format!(".{:09}", self.changed_ns % NS);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        write!(
            f,
            "{} bytes, changed {year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} UTC",
            self.num_bytes
        )
    }
}

/// Year, month and day of a day that is so many after the first of 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments are those that `date -u -d @SECONDS` prints.
    #[test]
    fn a_version_says_when_it_was_changed() {
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000_000_000, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199_500_000_000, "2024-02-29 23:59:59.5 UTC"),
            (1_735_689_599_000_000_001, "2024-12-31 23:59:59.000000001 UTC"),
            (4_107_542_400_000_000_000, "2100-03-01 00:00:00 UTC"),
        ];
        for (changed_ns, expected) in cases {
            let version = Version { num_bytes: 120, changed_ns };
            assert_eq!(version.to_string(), format!("120 bytes, changed {expected}"));
        }
    }
}
