//! Factors of what-if arguments, read digit by digit, so that `1.15` is exactly 23/20.

use std::str::FromStr;

use pipezero_schedule::simulate::cluster::Ratio;

use crate::decimal::Decimal;
use crate::whole::whole;

/// A decimal as a quotient in lowest terms; 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor(pub(super) Ratio);

/// How many times as long something takes; 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slowdown(pub(super) Ratio);

/// A world rank and its speed, which is above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpeedOf {
    pub(super) rank: u32,
    pub(super) speed: Ratio,
}

/// Why a text is not a factor, slowdown or speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FactorError {
    /// It is not a decimal.
    #[error(
        "a factor is a decimal such as `0.8`, not negative, with at most 9 digits before the point and 9 behind it"
    )]
    NotADecimal,
    /// It has more digits than fit.
    #[error(
        "a factor is stored as a quotient of two numbers below 2^32, and this one has too many digits: write fewer"
    )]
    TooManyDigits,
    /// Messages would make computes faster.
    #[error("a message does not make computes faster: write 1 or more")]
    BelowOne,
    /// It does not name a rank and a speed.
    #[error("a speed belongs to a world rank: write RANK=FACTOR, such as `5=0.8`")]
    NotASpeed,
    /// The rank would never finish.
    #[error("a rank with speed 0 would never finish: write a factor above 0")]
    SpeedZero,
}

impl FromStr for Factor {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let decimal: Decimal = text.parse().map_err(|_| FactorError::NotADecimal)?;
        let num_behind = decimal.num_behind();
        let (parts, one) = (decimal.in_parts(num_behind), 10u64.pow(num_behind));
        let divisor = greatest_common_divisor(parts, one);
        let fitting = |of: u64| u32::try_from(of / divisor).map_err(|_| FactorError::TooManyDigits);
        Ok(Self(Ratio::new(fitting(parts)?, fitting(one)?)))
    }
}

impl FromStr for Slowdown {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let Factor(ratio) = text.parse()?;
        if ratio.numerator < ratio.denominator { Err(FactorError::BelowOne) } else { Ok(Self(ratio)) }
    }
}

impl FromStr for SpeedOf {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let (rank, factor) = text.split_once('=').ok_or(FactorError::NotASpeed)?;
        let rank = whole(rank).map_err(|_| FactorError::NotASpeed)?;
        let Factor(speed) = factor.parse()?;
        if speed.numerator == 0 { Err(FactorError::SpeedZero) } else { Ok(Self { rank, speed }) }
    }
}

/// By Euclid's algorithm; that of 0 and a number is the number.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_exactly() {
        for (text, numerator, denominator) in [
            ("1.15", 23, 20),
            ("0.8", 4, 5),
            ("1", 1, 1),
            ("1.000", 1, 1),
            ("0", 0, 1),
            ("0.000000001", 1, 1_000_000_000),
            ("4.294967295", 858_993_459, 200_000_000),
            ("999999999", 999_999_999, 1),
        ] {
            assert_eq!(text.parse(), Ok(Factor(Ratio::new(numerator, denominator))), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_factors_are_refused() {
        for text in ["", "-1", "NaN", "inf", "1e3", "1,5", ".5", "1.0000000001", "1/2"] {
            assert_eq!(text.parse::<Factor>(), Err(FactorError::NotADecimal), "{text}");
        }
        assert_eq!("4.294967297".parse::<Factor>(), Err(FactorError::TooManyDigits));
        assert_eq!("0.999999999".parse::<Slowdown>(), Err(FactorError::BelowOne));
        for text in ["", "0.8", "=0.8", "x=1", "-1=1", "+1=1", "1.0=1", "4294967296=1"] {
            assert_eq!(text.parse::<SpeedOf>(), Err(FactorError::NotASpeed), "{text}");
        }
        assert_eq!("3=0.0".parse::<SpeedOf>(), Err(FactorError::SpeedZero));
        assert_eq!("3=".parse::<SpeedOf>(), Err(FactorError::NotADecimal));
        assert_eq!("3=2.5".parse(), Ok(SpeedOf { rank: 3, speed: Ratio::new(5, 2) }));
    }
}
