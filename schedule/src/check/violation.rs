//! What is wrong with a program: where, which rule, with which values.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use super::Rule;
use super::excerpt::excerpt;
use crate::id::PipelineRank;
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, step {}: {}\n{}", self.rank.0, self.step, self.rule, self.excerpt)
    }
}

impl core::error::Error for Violation {}
