//! What keeping a head's logits costs, beside recomputing them.

use pipezero_models::model::ModelLayer;
use pipezero_models::{HeadLogits, ModelConfig, VocabularyOptions};
use pipezero_partition::{RankFacts, RankMemory, Unit as PartitionUnit};
use pipezero_schedule::Unit;
use serde::Serialize;

use super::forecast::memory_facts_of;
use super::run_model::RunModel;
use super::units::planned_unit;
use super::{Plan, PlannedUnit};

/// What a head's logits cost, kept and recomputed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadLogitsCost {
    /// The rank that has the head.
    pub pipeline_rank: usize,
    /// Whether this plan keeps them.
    pub is_kept: bool,
    /// Bytes that the rank holds at most with logits kept.
    pub kept_peak_bytes: u64,
    /// The same with logits recomputed; `None` where the schedule runs weight gradients apart, which would wait with them.
    pub recomputed_peak_bytes: Option<u64>,
    /// What recomputing adds to the matrix products of a step, as a share of them.
    pub recomputed_flops_share: f64,
}

impl Plan {
    /// What the head's logits cost; `None` for a model without a head that may recompute them, as one with a loss of the caller's.
    pub fn head_logits_cost(&self) -> Option<HeadLogitsCost> {
        let options = self.run.model.gpt()?.vocabulary;
        let with = |head_logits| self.head_memory(VocabularyOptions { head_logits, ..options });
        let (kept, recomputed) = (with(HeadLogits::Keep)?, with(HeadLogits::Recompute)?);
        let is_kept = options.head_logits == HeadLogits::Keep;
        // A model that the caller brought may have other layers than the run's sizes give.
        if (if is_kept { kept } else { recomputed }) != RankMemory::of(&self.head_facts()) {
            return None;
        }
        let splits = self.run.parallel.schedule.splits_backwards();
        let layers = &self.model.layers;
        let own_layers = &layers[layers.len() - self.head_units().count()..];
        let flops = |layer: &ModelLayer| u128::from(layer.layer.forward_flops(self.shape));
        let [of_head, of_all] = [own_layers, layers].map(|layers| layers.iter().map(flops).sum::<u128>());
        Some(HeadLogitsCost {
            pipeline_rank: self.pipeline_rank_of(self.unit(self.head()).stage).index(),
            is_kept,
            kept_peak_bytes: kept.peak,
            recomputed_peak_bytes: (!splits).then_some(recomputed.peak),
            recomputed_flops_share: of_head as f64 / (3 * of_all).max(1) as f64,
        })
    }

    /// The unit of the head, or those of its slices.
    fn head_units(&self) -> impl Iterator<Item = Unit> {
        let last = self.head();
        let num_slices = self.unit(last).unit.table_slice().num_slices as u32;
        (last.0 + 1 - num_slices..=last.0).map(Unit)
    }

    fn head_facts(&self) -> RankFacts {
        self.memory_facts(self.pipeline_rank_of(self.unit(self.head()).stage))
    }

    /// Bytes of the head's rank, with the head built so.
    fn head_memory(&self, options: VocabularyOptions) -> Option<RankMemory> {
        let config: ModelConfig = self.run.model.clone().with_vocabulary(options);
        let model = config.build().ok().filter(|model| model.layers.len() == self.model.layers.len())?;
        let of = RunModel { run: &self.run, model: &model, graph: &self.graph, shape: self.shape };
        let mut facts = self.head_facts();
        let units = &mut facts.stages.last_mut()?.units;
        let num_parts: usize = self.head_units().map(|unit| self.unit(unit).parts.len()).sum();
        units.truncate(units.len() - num_parts);
        for unit in self.head_units() {
            let planned = self.unit(unit);
            let PlannedUnit { stage, layers, tying, is_frozen, .. } = planned.clone();
            let unit = PartitionUnit { stage: stage.index(), layers, tying, is_frozen };
            let rebuilt = planned_unit(of, &unit);
            units.extend(memory_facts_of(planned, &rebuilt.sizes));
        }
        Some(RankMemory::of(&facts))
    }
}
