//! The run that an engine for inference computes for.

use super::resolved::Run;

/// A run whose batches another engine computes with, and that engine's name: it has the data, the batches and the steps, and the other
/// engine no optimizer.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The engine that is trained.
    pub name: &'a str,
    /// Its run.
    pub run: &'a Run,
}
