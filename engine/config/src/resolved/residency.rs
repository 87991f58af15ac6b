//! Which gathered units stay.

use std::fmt;

use serde::{Serialize, Serializer};

/// Which gathered units stay, ZeRO-3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResidencyConfig {
    /// Resharded after every use.
    Strict,
    /// As much as so many of a rank's largest units, those in use and prefetched included.
    Units(usize),
    /// The same, with a number for each pipeline rank.
    PerRank(Vec<usize>),
    /// All of them, all step.
    All,
    /// On each rank as many as leave it below the fullest rank, and below what ZeRO-1 would need there.
    Level,
    /// On each rank as many as fit its memory.
    Auto,
}

/// As the run file spells it.
impl fmt::Display for ResidencyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Units(units) => units.fmt(f),
            Self::PerRank(units) => write!(f, "{units:?}"),
            Self::All => f.write_str("all"),
            Self::Level => f.write_str("level"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// As the run file has it: a number is a number, and a list a list.
impl Serialize for ResidencyConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Units(units) => units.serialize(serializer),
            Self::PerRank(units) => units.serialize(serializer),
            word => serializer.collect_str(word),
        }
    }
}
