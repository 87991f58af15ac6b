//! How many layers lie on each rank, as far as the file alone says it.
//!
//! `"uniform"` and manual lists are exact. The other partitions depend on what layers cost, which is known with the plan;
//! here they count as even, which is right for every statement that the smallest stage can only be smaller.

use crate::config::combination::RankLayers;
use crate::config::resolved::{ModelConfig, PartitionConfig};

use super::parallel::Grid;

/// A stage that is alone on its rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoneStage {
    /// Its number, where the file alone says which one it is.
    pub(super) stage: Option<usize>,
    /// Its pipeline rank, the last where the file alone does not say which one it is.
    pub(super) rank: usize,
    /// Its layers, or the most that it can have.
    pub(super) layers: usize,
}

impl Grid {
    /// Layers of each stage.
    fn stage_layers(&self) -> Vec<usize> {
        if let PartitionConfig::Manual(layers) = &self.partition {
            return layers.clone();
        }
        // The remainder goes to the first stages.
        let stages = self.num_stages();
        (0..stages)
            .map(|stage| self.num_layers / stages + usize::from(stage < self.num_layers % stages))
            .collect()
    }

    fn is_exact(&self) -> bool {
        self.num_stages() == 1
            || matches!(self.partition, PartitionConfig::Uniform | PartitionConfig::Manual(_))
    }

    fn rank_of(&self, stage: usize) -> usize {
        self.schedule.rank_of(stage, self.pipeline)
    }

    /// What lies on each pipeline rank.
    pub(super) fn rank_layers(&self) -> Vec<RankLayers> {
        let mut ranks = vec![RankLayers::default(); self.pipeline];
        for (stage, layers) in self.stage_layers().into_iter().enumerate() {
            let rank = &mut ranks[self.rank_of(stage)];
            rank.layers += layers;
            rank.largest_stage = rank.largest_stage.max(layers);
            rank.has_embedding |= stage == 0;
            rank.has_head |= stage + 1 == self.num_stages();
        }
        ranks
    }

    /// Of the stages that are alone on their ranks, the first with the fewest layers. Where the split is not exact but
    /// every rank has one stage, the smallest has no more than the even share.
    ///
    /// The first and the last stage of a pipeline have a tied weight in a unit of its own, so that one layer beside it is
    /// two units: such stages do not count.
    pub(super) fn smallest_lone_stage(&self, model: Option<&ModelConfig>) -> Option<LoneStage> {
        let is_tied =
            self.pipeline > 1 && model.and_then(ModelConfig::gpt).is_some_and(|sizes| sizes.tie_embeddings);
        let mut num_stages = vec![0_usize; self.pipeline];
        (0..self.num_stages()).for_each(|stage| num_stages[self.rank_of(stage)] += 1);
        if !self.is_exact() {
            let all_alone = num_stages.iter().all(|&stages| stages == 1);
            let layers = self.num_layers / self.pipeline;
            // One layer at each end, and two on every stage between them.
            let may_have_two_units = is_tied && layers == 1 && self.num_layers + 2 >= 2 * self.pipeline;
            return (all_alone && !may_have_two_units).then_some(LoneStage {
                stage: None,
                rank: self.pipeline - 1,
                layers,
            });
        }
        let has_tied = |stage: usize| is_tied && (stage == 0 || stage + 1 == self.num_stages());
        let layers = self.stage_layers().into_iter().enumerate();
        let alone = layers.filter(|&(stage, layers)| {
            num_stages[self.rank_of(stage)] == 1 && !(layers == 1 && has_tied(stage))
        });
        let smallest = alone.min_by_key(|(_, layers)| *layers);
        smallest.map(|(stage, layers)| LoneStage { stage: Some(stage), rank: self.rank_of(stage), layers })
    }
}
