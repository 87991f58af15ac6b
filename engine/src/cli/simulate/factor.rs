//! Factors of a "what if", read digit by digit, so that `1.15` is 23/20.

use std::fmt;
use std::str::FromStr;

use pipezero_schedule::simulate::cluster::Ratio;

use crate::cli::decimal::Decimal;

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

/// Why a text is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFactor {
    /// It is no decimal.
    Decimal,
    /// Its digits do not fit.
    TooManyDigits,
    /// Messages would make computes faster.
    Faster,
    /// It does not name a rank and a speed.
    NoRank,
    /// The rank would never get on.
    NoSpeed,
}

impl fmt::Display for NoFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decimal => {
                "a factor is a decimal such as `0.8`, not negative, with at most 9 digits before the point and 9 behind it"
            }
            Self::TooManyDigits => {
                "a factor is kept exactly, as a quotient of numbers below 2^32, which this one's digits exceed: write \
                 fewer of them"
            }
            Self::Faster => "computes take at least as long beside a message: write 1 or more",
            Self::NoRank => "a speed is that of a world rank: write RANK=FACTOR, such as `5=0.8`",
            Self::NoSpeed => "a rank of no speed would never end: write a factor above 0",
        })
    }
}

impl std::error::Error for NoFactor {}

impl FromStr for Factor {
    type Err = NoFactor;

    fn from_str(text: &str) -> Result<Self, NoFactor> {
        let decimal: Decimal = text.parse().map_err(|_| NoFactor::Decimal)?;
        let num_behind = decimal.num_behind();
        let (parts, one) = (decimal.in_parts(num_behind), 10u64.pow(num_behind));
        let divisor = greatest_common_divisor(parts, one);
        let fitting = |of: u64| u32::try_from(of / divisor).map_err(|_| NoFactor::TooManyDigits);
        Ok(Self(Ratio::new(fitting(parts)?, fitting(one)?)))
    }
}

impl FromStr for Slowdown {
    type Err = NoFactor;

    fn from_str(text: &str) -> Result<Self, NoFactor> {
        let Factor(ratio) = text.parse()?;
        if ratio.numerator < ratio.denominator { Err(NoFactor::Faster) } else { Ok(Self(ratio)) }
    }
}

impl FromStr for SpeedOf {
    type Err = NoFactor;

    fn from_str(text: &str) -> Result<Self, NoFactor> {
        let (rank, factor) = text.split_once('=').ok_or(NoFactor::NoRank)?;
        // A number's own syntax has a sign.
        let is_number = rank.bytes().all(|digit| digit.is_ascii_digit());
        let rank = rank.parse().ok().filter(|_| is_number).ok_or(NoFactor::NoRank)?;
        let Factor(speed) = factor.parse()?;
        if speed.numerator == 0 { Err(NoFactor::NoSpeed) } else { Ok(Self { rank, speed }) }
    }
}

/// Euclid's; that of 0 and a number is the number.
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
    fn what_is_no_factor_is_refused() {
        for text in ["", "-1", "NaN", "inf", "1e3", "1,5", ".5", "1.0000000001", "1/2"] {
            assert_eq!(text.parse::<Factor>(), Err(NoFactor::Decimal), "{text}");
        }
        assert_eq!("4.294967297".parse::<Factor>(), Err(NoFactor::TooManyDigits));
        assert_eq!("0.999999999".parse::<Slowdown>(), Err(NoFactor::Faster));
        for text in ["", "0.8", "=0.8", "x=1", "-1=1", "+1=1", "1.0=1", "4294967296=1"] {
            assert_eq!(text.parse::<SpeedOf>(), Err(NoFactor::NoRank), "{text}");
        }
        assert_eq!("3=0.0".parse::<SpeedOf>(), Err(NoFactor::NoSpeed));
        assert_eq!("3=".parse::<SpeedOf>(), Err(NoFactor::Decimal));
        assert_eq!("3=2.5".parse(), Ok(SpeedOf { rank: 3, speed: Ratio::new(5, 2) }));
    }
}
