//! How a teacher gives logits to a student some of whose processes are not its own: a job of processes in which they have different ranks.
//!
//! All processes of the job take part in what is said here, whichever engines they have. Before a step the student says that it takes it, so that those
//! which have the teacher alone know; a process of the teacher that a signal asks to end says so in answer. Then the teacher computes, all hear whether it
//! could, and its logits go to all. The student waits for the teacher as long as it computes, and the teacher for the student as long as that
//! trains, evaluates and saves, so that these waits have no limit but the end of a process.

use std::ops::Range;
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_plan::Plan;
use pipezero_run::data::Start;
use pipezero_run::engine::{BatchLogits, EngineError, share_logits};

/// What connects a teacher's and a student's processes.
pub(super) struct Lessons {
    job: Arc<dyn World>,
    /// Whether this process is the one that says what the student does.
    says_steps: bool,
    /// Whether a process of the teacher is to end.
    is_interrupted: bool,
}

impl Lessons {
    /// In a job that this world connects.
    pub(super) fn over(job: Arc<dyn World>) -> Self {
        Self { job, says_steps: false, is_interrupted: false }
    }

    /// The student's batches go on from here, as its process of rank 0 `says`; the others' answer does not count.
    pub(super) fn begin(&mut self, says: bool, at: Start) -> Result<Start, EngineError> {
        self.says_steps = says;
        let mut words = if says { [at.num_steps, at.num_sequences] } else { [0; 2] };
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        let [num_steps, num_sequences] = words;
        Ok(Start { num_steps, num_sequences })
    }

    /// The student takes this step, or none any more.
    pub(super) fn say_step(&mut self, step: Option<u64>) -> Result<(), EngineError> {
        let mut words = [if self.says_steps { step.unwrap_or(0) } else { 0 }, 0];
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        self.is_interrupted |= words[1] > 0;
        Ok(())
    }

    /// The student's next step, if it takes one; of a process that has none of its ranks, and may be asked to end.
    pub(super) fn hear_step(&mut self, is_interrupted: bool) -> Result<Option<u64>, EngineError> {
        let mut words = [0, u64::from(is_interrupted)];
        self.job.add_words_in_any_time(&mut words).map_err(EngineError::of_others)?;
        Ok(Some(words[0]).filter(|&step| step > 0))
    }

    /// Whether a process of the teacher has been asked to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// What this process has computed, if it was to compute anything and no process failed at it.
    pub(super) fn agree(&self, computed: Result<(), EngineError>) -> Result<(), EngineError> {
        let mut failures = [u64::from(computed.is_err())];
        let told = self.job.add_words_in_any_time(&mut failures);
        computed?;
        told.map_err(EngineError::of_others)?;
        if failures == [0] { Ok(()) } else { Err(EngineError::Elsewhere) }
    }

    /// Gives all processes the logits that a teacher of this plan has computed; those of its ranks that are `local` have done so here.
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
