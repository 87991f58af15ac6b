//! How many layers lie on each rank, as far as the file alone says it.
//!
//! `"uniform"` and manual lists are exact. The other partitions depend on what layers cost, which is known with the plan;
//! here they count as even, which is right for every statement that the smallest stage can only be smaller.

use crate::config::combination::RankLayers;
use crate::config::resolved::PartitionConfig;

use super::parallel::Grid;

/// A stage that is alone on its rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoneStage {
    /// Its number, where the file alone says which one it is.
    pub(super) stage: Option<usize>,
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
    pub(super) fn smallest_lone_stage(&self) -> Option<LoneStage> {
        let mut num_stages = vec![0_usize; self.pipeline];
        (0..self.num_stages()).for_each(|stage| num_stages[self.rank_of(stage)] += 1);
        if !self.is_exact() {
            let all_alone = num_stages.iter().all(|&stages| stages == 1);
            return all_alone.then(|| LoneStage { stage: None, layers: self.num_layers / self.pipeline });
        }
        let layers = self.stage_layers().into_iter().enumerate();
        let alone = layers.filter(|(stage, _)| num_stages[self.rank_of(*stage)] == 1);
        let smallest = alone.min_by_key(|(_, layers)| *layers);
        smallest.map(|(stage, layers)| LoneStage { stage: Some(stage), layers })
    }
}
