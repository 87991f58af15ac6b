//! The student for which an engine for inference computes logits.

use super::resolved::Run;

/// The run of a student, for whose batches an engine for inference (its teacher) computes logits. Data, batches and steps are the
/// student's; the engine for inference has no optimizer.
#[derive(Clone, Copy, Debug)]
pub struct StudentRun<'a> {
    /// The student's name, which is that of its engine.
    pub name: &'a str,
    /// The student's run.
    pub run: &'a Run,
}
