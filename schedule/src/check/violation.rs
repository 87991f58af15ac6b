//! What is wrong with a program: where, which rule, with which values.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::Rule;
use super::excerpt::excerpt;
use crate::id::PipelineRank;
use crate::instruction::Instruction;
use crate::program::Program;

/// A broken rule and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rank at fault.
    pub rank: PipelineRank,
    /// Position in the rank's row; its length if something is missing at the end.
    pub step: usize,
    /// The rule, with the values that break it.
    pub rule: Rule,
    /// The rank x step grid around the place.
    excerpt: String,
}

impl Violation {
    /// A broken rule with the grid around it.
    pub(super) fn new(program: &Program, rank: PipelineRank, step: usize, rule: Rule) -> Box<Self> {
        Box::new(Self { rank, step, rule, excerpt: excerpt(program, rank, step) })
    }
}

/// What a check returns; boxed, since a violation is large and rare.
pub(super) type Checked<T = ()> = Result<T, Box<Violation>>;

/// Holds every instruction to a rule, row by row; the first that breaks it is the violation.
pub(super) fn check_each(
    program: &Program,
    mut rule: impl FnMut(PipelineRank, usize, Instruction) -> Result<(), Rule>,
) -> Checked {
    for (rank, row) in program.ranks().zip(&program.rows) {
        for (step, &instruction) in row.iter().enumerate() {
            rule(rank, step, instruction).map_err(|rule| Violation::new(program, rank, step, rule))?;
        }
    }
    Ok(())
}

/// Whether what an instruction needs has run before it.
pub(super) fn runs_after(has_run: bool, instruction: Instruction, needed: Instruction) -> Result<(), Rule> {
    if has_run { Ok(()) } else { Err(Rule::RunsBefore { instruction, needed }) }
}

/// Whether the buffer that an instruction fills is free.
pub(super) fn fills_free(is_free: bool, instruction: Instruction, freed_by: Instruction) -> Result<(), Rule> {
    if is_free { Ok(()) } else { Err(Rule::BufferTaken { instruction, freed_by }) }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, step {}: {}\n{}", self.rank.0, self.step, self.rule, self.excerpt)
    }
}

impl core::error::Error for Violation {}
