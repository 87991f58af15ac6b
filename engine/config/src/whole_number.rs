//! Whole numbers, read exactly however JSON spells them.
//!
//! JSON knows one type of number, so `8`, `8.0`, `80e-1` and `8e0` are one value. Digits are counted instead of going
//! through f64, which would round beyond 2^53 and change what was written.

/// 2^53, the largest count below which every number of a run stays exact and addressable.
pub(crate) const MAX_COUNT: f64 = 9_007_199_254_740_992.0;

/// Why a number is not a whole number of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWhole {
    /// It has a fraction.
    Fraction,
    /// It is below 0.
    Negative,
    /// It is above 2^64 - 1.
    TooLarge,
}

/// The value of a JSON number.
pub(crate) fn read(text: &str) -> Result<u64, NotWhole> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or((1, mantissa), |rest| (-1, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_matches('0');
    if significant.is_empty() {
        // Every zero is one, -0 and 0e999 too.
        return Ok(0);
    }
    // The power of ten of the last significant digit. A text is too short for its digits to overflow, and an exponent that
    // does not fit is so far out that the digits cannot bring it back.
    let num_trailing = digits.len() - digits.trim_end_matches('0').len();
    let exponent =
        exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let power = exponent.saturating_add(num_trailing as i64 - fraction.len() as i64);
    let Ok(power) = u32::try_from(power.min(i64::from(u32::MAX))) else { return Err(NotWhole::Fraction) };
    if sign < 0 {
        return Err(NotWhole::Negative);
    }
    let value = significant.parse::<u64>().ok();
    let scaled = value.and_then(|value| value.checked_mul(10_u64.checked_pow(power)?));
    scaled.ok_or(NotWhole::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_is_one_value() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0e5", 0),
            ("0e99999999999999999999", 0),
            ("8", 8),
            ("8.0", 8),
            ("8E0", 8),
            ("80e-1", 8),
            ("0.8e+1", 8),
            ("8000e-3", 8),
            ("1e18", 1_000_000_000_000_000_000),
            ("1e19", 10_000_000_000_000_000_000),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551615", u64::MAX),
            ("1844674407370955161.5e1", u64::MAX),
        ] {
            assert_eq!(read(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn numbers_that_are_not_whole_say_why() {
        for (text, reason) in [
            ("1.5", NotWhole::Fraction),
            ("-1.5", NotWhole::Fraction),
            ("1e-400", NotWhole::Fraction),
            ("1e-99999999999999999999", NotWhole::Fraction),
            ("-1", NotWhole::Negative),
            ("-1e400", NotWhole::Negative),
            ("18446744073709551616", NotWhole::TooLarge),
            ("2e19", NotWhole::TooLarge),
            ("99999999999999999999", NotWhole::TooLarge),
            ("1e400", NotWhole::TooLarge),
            ("1e99999999999999999999", NotWhole::TooLarge),
        ] {
            assert_eq!(read(text), Err(reason), "{text}");
        }
    }

    proptest! {
        /// Any digits with the point anywhere, against arithmetic of 128 bits.
        #[test]
        fn shifted_digits_are_read_exactly(digits in 0_u64..1_000_000_000_000_000_000, zeros in 0_u32..18, exponent in -20_i64..20) {
            let (unit, shift) = (10_u128.pow(zeros), exponent - i64::from(zeros));
            let text = format!("{}.{:0width$}e{exponent}", u128::from(digits) / unit, u128::from(digits) % unit, width = zeros as usize);
            let text = text.replace(".e", ".0e");
            // Without zeros one digit stands behind the point, and it is 0.
            let expected = if shift >= 0 {
                let value = u128::from(digits) * 10_u128.pow(shift as u32);
                u64::try_from(value).map_err(|_| NotWhole::TooLarge)
            } else {
                let divisor = 10_u128.checked_pow(shift.unsigned_abs() as u32).unwrap_or(u128::MAX);
                if u128::from(digits).is_multiple_of(divisor) {
                    Ok((u128::from(digits) / divisor) as u64)
                } else {
                    Err(NotWhole::Fraction)
                }
            };
            prop_assert_eq!(read(&text), expected, "{}", text);
        }
    }
}
