//! `"activation_checkpointing": "auto"`: as little recomputation as lets every rank fit `memory`.
//!
//! Tried in order of what it costs in time: nothing; every layer of a unit by itself; every 2 layers together, every 4, and so on; each
//! unit. Of blocks that are recomputed each runs its forward once more, however many are recomputed together; only what the last layer of a
//! segment would hand on is not computed, so small segments cost least. Segments of twice as many layers keep half as many inputs of
//! each micro-batch in flight, in a buffer twice as large: the sum of both is with the best doubling about 6% above that with the best
//! number, `(√2 + 1/√2) / 2`, at most, so the numbers between are not tried. Each of these is a plan of its own, with logits kept if it then fits and
//! else recomputed, where that is left open too.
//!
//! What stays resident is decided afterwards: a gather can run behind a compute, a recomputation cannot. So no layer is recomputed to keep a
//! unit gathered that the run does not ask to be kept.

use std::iter;

use pipezero_config::{Checkpointing, HeadLogits, NoticeKind, Run, UnitLayers};

use super::auto_recomputation::{AutoRecomputation, KeptNeed};
use super::diagnostics::Diagnostic;
use super::{Bytes, Plan, PlanError};

const ENABLED: &[&str] = &["activation_checkpointing.enabled"];

impl Plan {
    /// The plan of a run with the fewest resident units, made by `planned`; where the run leaves recomputation to the plan, with the
    /// least that fits, or if none does, with that which comes nearest.
    ///
    /// Cost: at most a plan for each doubling of a unit's layers, and two more; twice as many if `overlap_comm` is `"auto"`.
    ///
    /// # Errors
    /// Those of `planned`.
    pub(super) fn with_recomputation(
        run: Run,
        planned: impl Fn(Run) -> Result<Self, PlanError>,
    ) -> Result<Self, PlanError> {
        let planned = |run| Self::with_gradient_buffers(run, &planned);
        if run.checkpointing != Checkpointing::Auto {
            return planned(run);
        }
        let with = |checkpointing| planned(Run { checkpointing, ..run.clone() });
        let kept = with(Checkpointing::Off);
        let as_auto =
            |plan: Result<Self, PlanError>, auto| Ok(Self { auto_recomputation: Some(auto), ..plan? });
        if run.parallel.schedule.splits_backwards() {
            return as_auto(kept, AutoRecomputation::SplitBackwards);
        }
        let Some(limit_bytes) = run.memory_bytes else { return as_auto(kept, AutoRecomputation::NoMemory) };
        let Some(rank_bytes) = needed_bytes(&kept) else { return kept };
        let kept_need = KeptNeed { rank_bytes, logits: logits_of(&run, &kept) };
        let needed = AutoRecomputation::Needed(kept_need);
        let fits = |plan: &Result<Self, PlanError>| {
            plan.as_ref().is_ok_and(|plan| plan.needs().rank_bytes <= limit_bytes)
        };
        if fits(&kept) {
            return as_auto(kept, needed);
        }
        let mut nearest = (rank_bytes, Checkpointing::Off, kept);
        for checkpointing in recomputations(&run) {
            let tried = with(checkpointing);
            if fits(&tried) {
                return as_auto(tried, needed);
            }
            if let Some(bytes) = needed_bytes(&tried).filter(|&bytes| bytes < nearest.0) {
                nearest = (bytes, checkpointing, tried);
            }
        }
        let (_, checkpointing, nearest) = nearest;
        as_auto(nearest, needed).map_err(|error| error.even_recomputed(checkpointing, kept_need))
    }

    /// What became of `"auto"`.
    pub(super) fn chosen_recomputation(&self) -> Option<Diagnostic> {
        let limit = self.run.memory_bytes.unwrap_or(0);
        let text = match self.auto_recomputation? {
            AutoRecomputation::NoMemory => "false: it recomputes what does not fit `memory`, which is not given".to_owned(),
            AutoRecomputation::SplitBackwards => {
                "false: `parallel.schedule` runs weight gradients apart from input gradients, and those that wait would need all that \
                 was recomputed for them"
                    .to_owned()
            }
            AutoRecomputation::Needed(kept) => match self.run.checkpointing.recomputed_together() {
                None => {
                    let [needed, limit] = Bytes(self.needs().rank_bytes).distinct(Bytes(limit));
                    let kept = kept.kept();
                    format!("false: with {kept} the fullest rank needs {needed} of the {limit} that `memory` gives it")
                }
                Some(together) => format!(
                    "true, of {together}: with {} a rank would need {} of the {} that `memory` gives it; \
                     recomputed, the fullest needs {}",
                    kept.kept(),
                    Bytes(kept.rank_bytes).distinct(Bytes(limit))[0],
                    Bytes(limit).distinct(Bytes(kept.rank_bytes))[0],
                    Bytes(self.needs().rank_bytes)
                ),
            },
        };
        Some(Diagnostic { kind: NoticeKind::Auto, keys: ENABLED, text })
    }

    /// Whether the run left to the plan what is recomputed.
    pub fn is_recomputation_auto(&self) -> bool {
        self.auto_recomputation.is_some()
    }
}

/// What a rank needs, also of a plan that was refused for it.
pub(super) fn needed_bytes(plan: &Result<Plan, PlanError>) -> Option<u64> {
    match plan {
        Ok(plan) => Some(plan.needs().rank_bytes),
        Err(error) => error.lacking_memory().map(|lacking| lacking.needs_bytes),
    }
}

/// What becomes of a run's logits in a plan of it, also in one that was refused: then, where the run leaves that open, with the least
/// that they can need.
fn logits_of(run: &Run, plan: &Result<Plan, PlanError>) -> HeadLogits {
    match plan {
        Ok(plan) => plan.run.model.gpt().map_or(HeadLogits::Keep, |gpt| gpt.vocabulary.head_logits),
        Err(_) if run.model.gpt().is_none() => HeadLogits::Keep,
        Err(_) => run.vocabulary.head_logits.unwrap_or(HeadLogits::Recompute),
    }
}

/// What may be recomputed, in the order in which it is tried. Where a unit is a stage, no even stage has more layers.
fn recomputations(run: &Run) -> impl Iterator<Item = Checkpointing> {
    let num_layers = run.model.num_layers();
    let of_unit = match run.zero.unit_layers {
        UnitLayers::Half => 1,
        UnitLayers::Blocks(layers) => layers.get().min(num_layers),
        UnitLayers::Stage => num_layers.div_ceil(run.parallel.num_stages().max(1)),
    };
    let numbers = iter::successors(Some(1_usize), |layers| layers.checked_mul(2));
    numbers
        .take_while(move |&layers| layers < of_unit)
        .map(Checkpointing::Layers)
        .chain([Checkpointing::Unit])
}
