//! Sends teacher logits to a student when teacher and student have ranks in different processes of a job.
//!
//! All processes of the job take part in each exchange, whichever engines they have. Before a step the student announces it, so that
//! processes with only teacher ranks know of it. A process of the teacher that a signal has asked to end answers that. Then the teacher
//! computes, all processes hear whether it succeeded, and its logits are sent to all. The student waits as long as the teacher computes,
//! and the teacher waits as long as the student trains, evaluates and saves. So these waits are not limited in time; they end only when a
//! process ends.

use std::ops::Range;
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_plan::Plan;
use pipezero_run::data::Start;
use pipezero_run::engine::{BatchLogits, EngineError, share_logits};

/// Exchanges steps and logits between the processes of a teacher and of its student.
pub(super) struct LogitsExchange {
    job: Arc<dyn World>,
    /// Whether this process announces the student's steps.
    says_steps: bool,
    /// Whether a process of the teacher is to end.
    is_interrupted: bool,
}

impl LogitsExchange {
    /// Between the processes of a job, which this world connects.
    pub(super) fn over(job: Arc<dyn World>) -> Self {
        Self { job, says_steps: false, is_interrupted: false }
    }

    /// Tells all processes from where the student's batches go on. Only the process of the student's rank 0 `says` it; what others pass
    /// does not count.
    pub(super) fn begin(&mut self, says: bool, at: Start) -> Result<Start, EngineError> {
        self.says_steps = says;
        let mut words = if says { [at.num_steps, at.num_sequences] } else { [0; 2] };
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        let [num_steps, num_sequences] = words;
        Ok(Start { num_steps, num_sequences })
    }

    /// Announces the student's next step; `None` if there are no more.
    pub(super) fn say_step(&mut self, step: Option<u64>) -> Result<(), EngineError> {
        let mut words = [if self.says_steps { step.unwrap_or(0) } else { 0 }, 0];
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        self.is_interrupted |= words[1] > 0;
        Ok(())
    }

    /// The student's next step, if there is one. For a process that has none of the student's ranks; a signal may have asked it to end.
    pub(super) fn hear_step(&mut self, is_interrupted: bool) -> Result<Option<u64>, EngineError> {
        let mut words = [0, u64::from(is_interrupted)];
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        Ok(Some(words[0]).filter(|&step| step > 0))
    }

    /// Whether a process of the teacher has been asked to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Agrees on whether the computation succeeded in every process.
    pub(super) fn agree(&self, computed: Result<(), EngineError>) -> Result<(), EngineError> {
        let mut failures = [u64::from(computed.is_err())];
        let told = self.job.add_words_in_any_time(&mut failures);
        computed?;
        told.map_err(EngineError::of_others)?;
        if failures == [0] { Ok(()) } else { Err(EngineError::Elsewhere) }
    }

    /// Sends all processes the logits that a teacher of this plan has computed. Its `local` ranks have computed theirs in this process.
    pub(super) fn share(
        &self,
        plan: &Plan,
        local: &Range<usize>,
        logits: &BatchLogits,
    ) -> Result<(), EngineError> {
        let exchange = |own| {
            let gathered = self.job.gather(own)?.concat();
            self.job.broadcast(gathered)
        };
        share_logits(plan, local, logits, exchange).map_err(EngineError::of_others)
    }
}
