//! Both levels planned for the same run.

use pipezero_config::{ResidencyConfig, ZeroLevel};
use pipezero_schedule::PipelineRank;

use super::BesideZero1;
use crate::refusal::as_zero_1;
use crate::{Plan, PlanError};

impl Plan {
    /// Every pipeline rank under ZeRO-3 and under ZeRO-1; empty below ZeRO-3, on one data rank, where nothing is sharded, and for inference, which
    /// has neither gradients nor an optimizer to shard.
    pub fn beside_zero_1(&self) -> &[BesideZero1] {
        &self.beside_zero_1
    }

    /// The residency that is compared: the fewest units that the run can have. `"strict"` has no more, and gathers them more often.
    pub(crate) fn compared_residency(&self) -> ResidencyConfig {
        match self.asked_residency {
            ResidencyConfig::Strict => ResidencyConfig::Strict,
            _ => self.least_residency(),
        }
    }

    /// What [`Plan::beside_zero_1`] keeps.
    ///
    /// Cost: up to two plans of this run.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub(crate) fn compared_with_zero_1(&self) -> Result<Vec<BesideZero1>, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 || !self.run.trains() {
            return Ok(Vec::new());
        }
        let least = self.with_residency(self.compared_residency())?;
        let zero_1 = self.on_this_split(as_zero_1)?;
        let of_rank = |rank: PipelineRank| BesideZero1 {
            pipeline_rank: rank.index(),
            peak_bytes: least.peak_of(rank),
            zero_1_peak_bytes: zero_1.peak_of(rank),
            least_tried_peak_bytes: self.least_tried_peak_bytes.get(rank.index()).copied(),
            sent_bytes: least.traffic_of(rank).total_bytes(),
            zero_1_sent_bytes: zero_1.traffic_of(rank).total_bytes(),
        };
        Ok(self.training.ranks().map(of_rank).collect())
    }
}
