//! `"overlap_comm": "auto"`: one gradient buffer on each rank where two do not fit `memory` and one does.
//!
//! With one buffer every gradient waits for the reduction of the one before it. That is tried before anything is recomputed, which takes more time
//! in all that was simulated (`docs/zero.md`), and then with each recomputation, behind which reductions hide.

use pipezero_config::{NoticeKind, OverlapComm, ReductionPolicy, Run};

use super::auto_overlap::AutoOverlap;
use super::diagnostics::Diagnostic;
use super::recomputation::needed_bytes;
use super::{Bytes, Plan, PlanError};

const OVERLAP_COMM: &[&str] = &["zero_optimization.overlap_comm"];

impl Plan {
    /// The plan of a run with the fewest resident units, made by `planned`; where the run leaves gradient buffers to the plan, with two if that
    /// fits, else with one if that does, else with those with which it needs less.
    ///
    /// # Errors
    /// Those of `planned`.
    pub(super) fn with_gradient_buffers(
        run: Run,
        planned: &impl Fn(Run) -> Result<Self, PlanError>,
    ) -> Result<Self, PlanError> {
        if run.zero.overlap_comm != OverlapComm::Auto || run.zero.reduce == ReductionPolicy::Last {
            return planned(run);
        }
        let with = |overlap_comm| {
            let mut run = run.clone();
            run.zero.overlap_comm = overlap_comm;
            planned(run)
        };
        let as_auto = |plan: Result<Self, PlanError>, auto| Ok(Self { auto_overlap: Some(auto), ..plan? });
        let two = with(OverlapComm::True);
        let Some(limit_bytes) = run.memory_bytes else { return as_auto(two, AutoOverlap::NoMemory) };
        let Some(rank_bytes) = needed_bytes(&two) else { return two };
        let needed = AutoOverlap::Needed { rank_bytes };
        if two.is_ok() && rank_bytes <= limit_bytes {
            return as_auto(two, needed);
        }
        let one = with(OverlapComm::False);
        match needed_bytes(&one) {
            Some(bytes) if bytes < rank_bytes => as_auto(one, needed),
            _ => as_auto(two, needed),
        }
    }

    /// The notice for `"auto"`: one or two buffers, and why.
    pub(super) fn chosen_overlap(&self) -> Option<Diagnostic> {
        let limit = self.run.memory_bytes.unwrap_or(0);
        let text = match self.auto_overlap? {
            AutoOverlap::NoMemory => {
                "true: it is false where two gradient buffers do not fit `memory`, which is not given"
                    .to_owned()
            }
            AutoOverlap::Needed { rank_bytes } => {
                let [needed, limit] = Bytes(rank_bytes).distinct(Bytes(limit));
                match self.run.zero.overlap_comm {
                    OverlapComm::False => format!(
                        "false: with two gradient buffers a rank would need {needed} of the {limit} that `memory` gives it; with one the \
                         fullest needs {}, and each backward waits for the reduction of the gradients before its own: `simulate` shows \
                         what that costs in time",
                        Bytes(self.needs().rank_bytes)
                    ),
                    OverlapComm::True | OverlapComm::Auto => format!(
                        "true: with two gradient buffers a rank needs {needed} of the {limit} that `memory` gives it"
                    ),
                }
            }
        };
        Some(Diagnostic { kind: NoticeKind::Auto, keys: OVERLAP_COMM, text })
    }

    /// This plan with two gradient buffers on each rank, where it has one.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub(super) fn overlapped(&self) -> Result<Option<Self>, PlanError> {
        if !self.training.options().reduces_in_turn() {
            return Ok(None);
        }
        self.on_this_split(|run| run.zero.overlap_comm = OverlapComm::True).map(Some)
    }
}
