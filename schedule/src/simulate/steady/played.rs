//! A program and when its instructions ran.

use crate::check::CheckedProgram;
use crate::simulate::costs::{Costs, CostsError};
use crate::simulate::simulate;
use crate::simulate::timeline::Timeline;

/// A program and its timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The program.
    pub program: CheckedProgram,
    /// When its instructions run.
    pub timeline: Timeline,
}

impl Played {
    pub(super) fn new(program: CheckedProgram, costs: &Costs) -> Result<Self, CostsError> {
        let timeline = simulate(&program, costs)?;
        Ok(Self { program, timeline })
    }
}
