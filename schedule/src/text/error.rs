//! Why a text is not a program.

use alloc::string::String;
use core::fmt;

use super::VERSION;
use crate::chain::ChainError;
use crate::id::PipelineRank;
use crate::placement::PlacementError;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Another word stands where one of a few is due.
    Word {
        /// The word.
        found: String,
        /// What could stand here.
        expected: &'static str,
    },
    /// The line ends where a word is due.
    EndOfLine {
        /// What could stand here.
        expected: &'static str,
    },
    /// The text ends where a line is due, or the last line lacks its line feed.
    EndOfText {
        /// What could stand here.
        expected: &'static str,
    },
    /// The line goes on after its last word.
    MoreOnLine {
        /// The rest.
        found: String,
    },
    /// The text goes on after `end`.
    MoreText,
    /// Not a number in plain decimal of at most `bits` bits, after the letter of its kind if it has one.
    Number {
        /// The word.
        found: String,
        /// Bits of the largest number that could stand here.
        bits: u32,
        /// What could stand here.
        expected: &'static str,
    },
    /// A version that is not read here.
    Version {
        /// The version.
        found: u32,
    },
    /// A budget of no units.
    NoResidentUnits,
    /// A unit of which no byte is frozen is marked as partly frozen.
    NoFrozenBytes,
    /// An edge between stages that are not neighbours.
    NotNeighbours {
        /// The edge.
        found: String,
    },
    /// A unit out of order.
    UnitOutOfOrder {
        /// Its number.
        found: u32,
        /// The number that is due.
        expected: u32,
    },
    /// A row out of order.
    RowOutOfOrder {
        /// Its rank.
        found: PipelineRank,
        /// The rank that is due.
        expected: PipelineRank,
    },
    /// Not a placement.
    Placement(PlacementError),
    /// Not a chain of units.
    Chain(ChainError),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

impl core::error::Error for ParseError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word { found, expected } => write!(f, "found `{found}`; write {expected}"),
            Self::EndOfLine { expected } => write!(f, "the line ends here; write {expected}"),
            Self::EndOfText { expected } => write!(f, "the text ends here; write {expected} and a line feed"),
            Self::MoreOnLine { found } => write!(f, "`{found}` follows the end of the line's form; drop it"),
            Self::MoreText => f.write_str("text follows `end`; drop it"),
            Self::Number { found, bits, expected } => write!(
                f,
                "found `{found}`; write {expected}, in plain decimal without leading zeros, below 2^{bits}"
            ),
            Self::Version { found } => {
                write!(f, "version {found} is not read here; write version {VERSION}")
            }
            Self::NoResidentUnits => {
                f.write_str("0 resident units; a unit in use is held, so write at least 1")
            }
            Self::NoFrozenBytes => f.write_str("0 frozen bytes; drop `frozen` where all weights are trained"),
            Self::NotNeighbours { found } => {
                write!(f, "`{found}` joins stages that are not neighbours; write `s0>s1` or `s1>s0`")
            }
            Self::UnitOutOfOrder { found, expected } => {
                write!(f, "unit {found} is out of order; write units in chain order, here u{expected}")
            }
            Self::RowOutOfOrder { found, expected } => write!(
                f,
                "the row of rank {} is out of order; write rows in rank order, here {expected}",
                found.0
            ),
            Self::Placement(error) => error.fmt(f),
            Self::Chain(error) => error.fmt(f),
        }
    }
}
