//! Lists of costs or sizes that have an entry for each part of a program.

use core::fmt;

use crate::check::CheckedProgram;

/// The parts of a program that a list has entries for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Units.
    Units,
    /// Edges, those within a rank too.
    Edges,
    /// Pipeline ranks.
    Ranks,
}

/// A list has another number of entries than its program has parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLength {
    /// What is listed: "costs".
    pub what: &'static str,
    /// Of which parts.
    pub of: Listed,
    /// Entries of the list.
    pub length: usize,
    /// Parts of the program.
    pub expected: usize,
}

impl WrongLength {
    pub(super) fn check(
        what: &'static str,
        of: Listed,
        length: usize,
        program: &CheckedProgram,
    ) -> Result<(), Self> {
        let expected = match of {
            Listed::Units => program.units().len(),
            Listed::Edges => program.chain().num_edges(),
            Listed::Ranks => program.num_ranks(),
        };
        if length == expected { Ok(()) } else { Err(Self { what, of, length, expected }) }
    }
}

impl fmt::Display for WrongLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, of, length, expected } = self;
        let (parts, rule) = match of {
            Listed::Units => ("units", "one for each unit, in chain order"),
            Listed::Edges => ("edges", "two for each pair of neighbouring stages, up and down"),
            Listed::Ranks => ("ranks", "one for each pipeline rank"),
        };
        write!(f, "{what} of {length} {parts} for a program of {expected}: give {rule}")
    }
}
