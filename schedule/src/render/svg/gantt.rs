//! What a picture of a step is drawn from.

use crate::check::CheckedProgram;
use crate::render::scale::TimeScale;
use crate::simulate::{MemoryCurve, Timeline};

/// How much of a step a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Everything.
    WholeStep,
    /// What belongs to a micro-batch, without the tail of the step: for schedules without a model, whose tail takes
    /// no time.
    MicroBatches,
}

/// A picture to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Gantt<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// What was run.
    pub program: &'a CheckedProgram,
    /// When.
    pub timeline: &'a Timeline,
    /// `[rank]`: what memory that took; empty for a picture without memory.
    pub memory: &'a [MemoryCurve],
    /// How times are written.
    pub scale: TimeScale,
    /// How much of it is drawn.
    pub shown: Shown,
}
