//! Which pipeline rank each stage lies on: the one place that knows it.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{PipelineRank, Stage};

/// A map from stages to pipeline ranks; every rank holds at least one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    ranks_by_stage: Vec<PipelineRank>,
    num_ranks: usize,
}

/// Why a list of ranks is not a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementError {
    /// There is no stage.
    NoStage,
    /// A rank has no stage although a higher one has.
    EmptyRank(PipelineRank),
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStage => f.write_str("0 stages: a pipeline has at least one; give its rank"),
            Self::EmptyRank(rank) => write!(
                f,
                "no stage lies on rank {}: every rank needs one; number the ranks without gaps",
                rank.0
            ),
        }
    }
}

impl core::error::Error for PlacementError {}

impl Placement {
    /// Stage `s` on rank `s`.
    ///
    /// # Errors
    /// [`PlacementError::NoStage`] for `num_ranks = 0`.
    pub fn linear(num_ranks: u32) -> Result<Self, PlacementError> {
        Self::new((0..num_ranks).map(PipelineRank).collect())
    }

    /// Stage `s` on rank `s mod num_ranks`, `num_virtual` stages on each rank (Megatron-LM, arXiv:2104.04473,
    /// section 2.2.2).
    ///
    /// # Errors
    /// [`PlacementError::NoStage`] if either number is 0.
    pub fn looped(num_ranks: u32, num_virtual: u32) -> Result<Self, PlacementError> {
        Self::new((0..num_virtual).flat_map(|_| (0..num_ranks).map(PipelineRank)).collect())
    }

    /// Stage `s` on rank `ranks[s]`.
    ///
    /// # Errors
    /// [`PlacementError`] if there is no stage, or a rank without one.
    pub fn new(ranks: Vec<PipelineRank>) -> Result<Self, PlacementError> {
        // More ranks than stages leave one empty, so the table below never exceeds the list.
        let num_stages = ranks.len();
        if num_stages == 0 {
            return Err(PlacementError::NoStage);
        }
        let mut holds_stage = vec![false; num_stages];
        let mut num_ranks = 0;
        for rank in &ranks {
            num_ranks = num_ranks.max(rank.index().saturating_add(1));
            if let Some(holds) = holds_stage.get_mut(rank.index()) {
                *holds = true;
            }
        }
        let first_empty = holds_stage.iter().position(|holds| !holds).unwrap_or(num_stages);
        if first_empty < num_ranks {
            return Err(PlacementError::EmptyRank(PipelineRank(first_empty as u32)));
        }
        Ok(Self { ranks_by_stage: ranks, num_ranks })
    }

    /// Number of pipeline ranks.
    pub fn num_ranks(&self) -> usize {
        self.num_ranks
    }

    /// Number of stages.
    pub fn num_stages(&self) -> usize {
        self.ranks_by_stage.len()
    }

    /// The rank that a stage lies on.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn rank(&self, stage: Stage) -> PipelineRank {
        self.ranks_by_stage[stage.index()]
    }

    /// The rank of every stage, in stage order.
    pub fn ranks_by_stage(&self) -> &[PipelineRank] {
        &self.ranks_by_stage
    }

    /// Every pipeline rank, ascending.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = PipelineRank> + use<> {
        (0..self.num_ranks as u32).map(PipelineRank)
    }

    /// The stages of a rank, ascending.
    pub fn stages(&self, rank: PipelineRank) -> impl Iterator<Item = Stage> + '_ {
        self.ranks_by_stage
            .iter()
            .enumerate()
            .filter(move |&(_, &of_stage)| of_stage == rank)
            .map(|(stage, _)| Stage(stage as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_puts_each_stage_on_its_own_rank() {
        let placement = Placement::linear(3).unwrap();
        assert_eq!((placement.num_ranks(), placement.num_stages()), (3, 3));
        assert_eq!(placement.rank(Stage(2)), PipelineRank(2));
    }

    #[test]
    fn a_loop_comes_back_to_each_rank() {
        let placement = Placement::looped(2, 3).unwrap();
        assert_eq!((placement.num_ranks(), placement.num_stages()), (2, 6));
        assert_eq!(placement.stages(PipelineRank(1)).collect::<Vec<_>>(), [Stage(1), Stage(3), Stage(5)]);
        assert_eq!(Placement::looped(3, 1), Placement::linear(3));
        assert_eq!(Placement::looped(0, 2), Err(PlacementError::NoStage));
        assert_eq!(Placement::looped(2, 0), Err(PlacementError::NoStage));
    }

    #[test]
    fn a_v_shape_has_two_stages_on_each_rank() {
        let placement = Placement::new([0, 1, 1, 0].map(PipelineRank).to_vec()).unwrap();
        assert_eq!(placement.num_ranks(), 2);
        assert_eq!(placement.stages(PipelineRank(0)).collect::<Vec<_>>(), [Stage(0), Stage(3)]);
    }

    #[test]
    fn an_empty_rank_is_named() {
        assert_eq!(Placement::linear(0), Err(PlacementError::NoStage));
        let gap = Placement::new(vec![PipelineRank(0), PipelineRank(2)]);
        assert_eq!(gap, Err(PlacementError::EmptyRank(PipelineRank(1))));
        let far = Placement::new(vec![PipelineRank(u32::MAX)]);
        assert_eq!(far, Err(PlacementError::EmptyRank(PipelineRank(0))));
    }
}
