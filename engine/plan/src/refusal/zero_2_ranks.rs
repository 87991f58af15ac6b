//! Refuses ZeRO-3 in a pipeline where ranks do what ZeRO-2 does, whichever keys led there.

use pipezero_config::ZeroLevel;
use pipezero_partition::{UnitSharding, WeightElements};
use pipezero_schedule::PipelineRank;

use crate::unit::Reduced;
use crate::zero_2_ranks::Zero2Ranks;
use crate::{Plan, PlanError};

impl Plan {
    /// Whether ranks that do what ZeRO-2 does are refused.
    pub(crate) fn refuses_zero_2(&self) -> bool {
        self.run.trains() && self.grid.pipeline_degree > 1 && self.run.zero.level == ZeroLevel::Zero3
    }

    /// The ranks that are refused because they do what ZeRO-2 does.
    pub(crate) fn zero_2_ranks(&self) -> Vec<(PipelineRank, WeightElements)> {
        if !self.refuses_zero_2() {
            return Vec::new();
        }
        let of_all = self.training.ranks().map(|rank| (rank, self.weight_elements(rank)));
        of_all.filter(|(_, elements)| elements.are_as_under_zero_2()).collect()
    }

    /// Refuses them.
    ///
    /// # Errors
    /// [`PlanError::Zero2Ranks`].
    pub(crate) fn refuse_zero_2_ranks(&self) -> Result<(), PlanError> {
        let ranks = self.zero_2_ranks();
        if ranks.is_empty() {
            return Ok(());
        }
        let has_list = !self.run.zero.sharding.rules().is_empty();
        let threshold = ranks.iter().map(|&(rank, _)| self.threshold_that_shards_enough(rank)).min();
        Err(PlanError::Zero2Ranks(Box::new(Zero2Ranks {
            ranks,
            pipeline: self.grid.pipeline_degree,
            num_micro_batches: self.run.batch.num_micro_batches,
            threshold: threshold.filter(|_| !has_list),
        })))
    }

    /// The elements of a rank's weights, a tied weight that it uses twice counted once.
    fn weight_elements(&self, rank: PipelineRank) -> WeightElements {
        let zero = &self.run.zero;
        let parts = self.weights_held(rank).flat_map(|(_, unit)| &unit.parts);
        parts.fold(WeightElements::default(), |sum, part| {
            let elements = part.num_elements as u64;
            let if_so = |holds: bool| if holds { elements } else { 0 };
            WeightElements {
                num_all: sum.num_all + elements,
                num_sharded: sum.num_sharded + if_so(part.sharding == UnitSharding::Sharded),
                num_trained: sum.num_trained + if_so(!part.is_frozen),
                num_reduced_often: sum.num_reduced_often + if_so(part.reduced(zero) == Reduced::Every),
            }
        })
    }

    /// The highest threshold with which the largest parameters of a rank are sharded, as many as the rule asks for.
    fn threshold_that_shards_enough(&self, rank: PipelineRank) -> u64 {
        let entries = self.weights_held(rank).flat_map(|(_, unit)| unit.unit.entries());
        let mut sizes: Vec<(u64, u64)> = entries
            .map(|entry| (entry.spec.num_elements_of_all() as u64, entry.range.len() as u64))
            .collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let mut elements = self.weight_elements(rank);
        elements.num_sharded = 0;
        let enough = sizes.iter().find(|(_, held)| {
            elements.num_sharded += held;
            !elements.are_as_under_zero_2()
        });
        enough.map_or(0, |&(size, _)| size.saturating_sub(1))
    }
}
