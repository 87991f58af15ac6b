//! What a run leaves to the plan of its vocabulary: into how many slices the tables are cut, and whether logits are kept.

use pipezero_config::{Run, ZeroLevel};
use pipezero_models::model::{LayerRole, Model};
use pipezero_models::shared::num_blocks;
use pipezero_models::{HeadLogits, VocabularyOptions};
use pipezero_partition::{RankMemory, UnitLayers};

use super::{Plan, PlanError};

/// Slices that are chosen at most: each is a message in every micro-batch, and a program has several instructions for it.
const SLICES_MAX: usize = 64;

impl Plan {
    /// The plan of a run whose model is built from its sizes, with the fewest resident units.
    ///
    /// Where the run leaves it open, logits are kept unless a rank does not fit `memory` with them; or, where there is no such
    /// bound, unless they make the last stage's rank need more than any other of several. A schedule that runs weight gradients apart
    /// keeps them: all that wait would wait with their logits' gradients.
    pub(super) fn with_vocabulary(
        run: Run,
        planned: fn(Run, Model) -> Result<Self, PlanError>,
    ) -> Result<Self, PlanError> {
        let with = |head_logits| {
            let (run, model) = built(&run, head_logits)?;
            Self::with_least_residency(run, model, planned)
        };
        let is_kept = run.model.gpt().is_none() || run.parallel.schedule.splits_backwards();
        match run.vocabulary.head_logits {
            Some(head_logits) => with(head_logits),
            None if is_kept => with(HeadLogits::Keep),
            None => {
                let kept = with(HeadLogits::Keep);
                let recomputed = match &kept {
                    Ok(plan) if !plan.logits_weigh() => return kept,
                    Ok(_) => with(HeadLogits::Recompute),
                    Err(error) if error.lacking_memory().is_some() => with(HeadLogits::Recompute),
                    Err(_) => return kept,
                };
                recomputed.or_else(|error| kept.map_err(|_| error))
            }
        }
    }

    /// Whether the rank of the head does not fit `memory`, or without such a bound needs more than any other of several.
    fn logits_weigh(&self) -> bool {
        let of_head = self.pipeline_rank_of(self.unit(self.head()).stage);
        let peak_bytes = |rank| RankMemory::of(&self.memory_facts(rank)).peak;
        let own = peak_bytes(of_head);
        let others = self.training.ranks().filter(|&rank| rank != of_head).map(peak_bytes);
        match self.run.memory_bytes {
            Some(limit_bytes) => own > limit_bytes,
            None => others.max().is_some_and(|other| own > other),
        }
    }
}

/// A run's model with its tables cut as the run asks, and the run with that model.
pub(super) fn built(run: &Run, head_logits: HeadLogits) -> Result<(Run, Model), PlanError> {
    let vocabulary = VocabularyOptions { num_slices: num_slices(run)?, head_logits };
    let run = Run { model: run.model.clone().with_vocabulary(vocabulary), ..run.clone() };
    let model = run.model.build()?;
    Ok((run, model))
}

/// Slices of each table: those that the run asks for, or as many as make none larger than the largest unit of transformer blocks.
fn num_slices(run: &Run) -> Result<usize, PlanError> {
    let Some(gpt) = run.model.gpt() else { return Ok(1) };
    let is_gathered = run.zero.level == ZeroLevel::Zero3 && run.parallel.data > 1;
    match run.vocabulary.num_slices {
        Some(num_slices) => Ok(num_slices),
        None if !is_gathered => Ok(1),
        None => {
            let table = gpt.vocab_size.saturating_mul(gpt.hidden_size);
            let largest = largest_unit(run, &run.model.build()?);
            let most = num_blocks(gpt.vocab_size).min(SLICES_MAX);
            Ok(table.div_ceil(largest.max(1)).clamp(1, most))
        }
    }
}

/// Parameters of the largest unit of transformer blocks, about: of those of a whole stage one in as many as there are stages.
fn largest_unit(run: &Run, model: &Model) -> usize {
    let first_block: Vec<usize> = model
        .layers
        .iter()
        .filter(|layer| layer.role == LayerRole::Block { index: 0 })
        .map(|layer| layer.layer.parameters().iter().map(|spec| spec.num_elements()).sum())
        .collect();
    let block: usize = first_block.iter().sum();
    match run.zero.unit_layers {
        UnitLayers::Half => {
            let (first, second) = first_block.split_at(first_block.len().div_ceil(2));
            first.iter().sum::<usize>().max(second.iter().sum())
        }
        UnitLayers::Blocks(num_blocks) => block.saturating_mul(num_blocks.get()),
        UnitLayers::Stage => {
            block.saturating_mul(run.model.num_layers().div_ceil(run.parallel.num_stages().max(1)))
        }
    }
}
