//! Decimals on the command line, read digit by digit, so that `0.1` is exactly a tenth and sums are exact.

use std::str::FromStr;

/// Digits before the point at most, and behind it.
const DIGITS_MAX: usize = 9;

/// A decimal that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decimal {
    /// The digits as a whole number.
    digits: u64,
    /// How many of them are behind the point.
    num_behind: u32,
}

impl Decimal {
    /// How many digits are behind the point, trailing zeros not counted.
    pub(super) fn num_behind(self) -> u32 {
        self.num_behind
    }

    /// The decimal in parts, `10^num_behind` of which make 1; `num_behind` is at least [`Decimal::num_behind`].
    pub(super) fn in_parts(self, num_behind: u32) -> u64 {
        // At most 18 digits, which a u64 holds.
        self.digits * 10u64.pow(num_behind - self.num_behind)
    }
}

/// A text is not a decimal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a time is a decimal such as `18.522`, not negative, with at most {DIGITS_MAX} digits before the point and {DIGITS_MAX} \
     behind it"
)]
pub(super) struct NotADecimal;

impl FromStr for Decimal {
    type Err = NotADecimal;

    fn from_str(text: &str) -> Result<Self, NotADecimal> {
        let (before, behind) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| {
            (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        if !is_number(before) || !is_number(behind) {
            return Err(NotADecimal);
        }
        let behind = behind.trim_end_matches('0');
        let digits = format!("{before}{behind}").parse().map_err(|_| NotADecimal)?;
        Ok(Self { digits, num_behind: behind.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        let parts = |text: &str, num_behind| text.parse::<Decimal>().unwrap().in_parts(num_behind);
        assert_eq!((parts("18.522", 3), parts("0.1", 9), parts("7", 2)), (18_522, 100_000_000, 700));
        assert_eq!((parts("1.500", 1), parts("0", 0)), (15, 0));
        assert_eq!(parts("999999999.999999999", 9), 999_999_999_999_999_999);
    }

    #[test]
    fn texts_that_are_not_decimals_are_refused() {
        let texts = "/./1./.5/-1/+1/1e3/NaN/inf/1,5/ 1/1.0000000001/9999999999/1.2.3/٣";
        for text in texts.split('/') {
            assert_eq!(text.parse::<Decimal>(), Err(NotADecimal), "{text}");
        }
    }
}
