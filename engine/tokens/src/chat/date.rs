//! The date that templates ask for with `strftime_now`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment, in seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Date(pub i64);

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Date {
    /// This moment; with the variable `SOURCE_DATE_EPOCH`, which makes builds repeatable, the one that it says.
    pub fn now() -> Self {
        let said = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Self(said.unwrap_or_else(now))
    }

    /// Year, month and day, both from 1, of the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
    fn civil(self) -> (i64, i64, i64) {
        // Days since 0000-03-01, so that a leap day ends a year.
        let days = self.0.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }

    /// As Python's `strftime` in the locale C; the letter of a directive that is not known here.
    pub(super) fn format(self, format: &str) -> Result<String, char> {
        let (year, month, day) = self.civil();
        let of_day = self.0.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        // 1970-01-01 was a Thursday.
        let weekday = WEEKDAYS[(self.0.div_euclid(86_400) + 3).rem_euclid(7) as usize];
        let month_name = MONTHS[month as usize - 1];
        let mut text = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            let directive = letters.next().ok_or('%')?;
            text += &match directive {
                'Y' => year.to_string(),
                'y' => format!("{:02}", year.rem_euclid(100)),
                'm' => format!("{month:02}"),
                'd' => format!("{day:02}"),
                'e' => format!("{day:2}"),
                'B' => month_name.to_owned(),
                'b' | 'h' => month_name[..3].to_owned(),
                'A' => weekday.to_owned(),
                'a' => weekday[..3].to_owned(),
                'H' => format!("{hour:02}"),
                'I' => format!("{:02}", (hour + 11) % 12 + 1),
                'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
                'M' => format!("{minute:02}"),
                'S' => format!("{second:02}"),
                'F' => format!("{year}-{month:02}-{day:02}"),
                'T' => format!("{hour:02}:{minute:02}:{second:02}"),
                // Python says nothing of the zone of a moment without one.
                'Z' | 'z' => String::new(),
                '%' => "%".to_owned(),
                other => return Err(other),
            };
        }
        Ok(text)
    }
}
