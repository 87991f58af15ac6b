//! Forward only: evaluation.

use alloc::vec::Vec;

use super::groups::groups;
use super::size::{SizeError, check, forward, linear};
use crate::id::{PipelineRank, Stage};
use crate::order::{ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::protocol::{FORWARD_SLOTS, RECEIVE_BUFFERS};

/// Every forward and nothing else, for evaluation and generation, one stage on each rank.
///
/// ```text
/// p = 3, m = 4
/// rank 0  F0 F1 F2 F3 .. ..
/// rank 1  .. F0 F1 F2 F3 ..
/// rank 2  .. .. F0 F1 F2 F3
/// ```
///
/// * Makespan: `(m + p - 1) T_F + (p - 1) c`.
/// * In flight: nothing stays for a backward; a stage that sends has two activation slots, so that it computes one
///   micro-batch while it sends the last.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn forward_only(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    linear(num_ranks, num_micro_batches, |stage| {
        (0..num_micro_batches).map(|micro_batch| forward(stage, micro_batch)).collect()
    })
}

/// Every forward and nothing else, on any placement.
///
/// ```text
/// p = 2, two stages per rank, looped, m = 4          a V: stages 0 and 3 on rank 0, m = 3
/// rank 0  0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3 ..          rank 0  0F0 0F1 0F2 3F0 .. 3F1 .. 3F2
/// rank 1  .. 1F0 1F1 3F0 3F1 1F2 1F3 3F2 3F3          rank 1  .. 1F0 2F0 1F1 2F1 1F2 2F2 ..
/// ```
///
/// The rows are those of a running pipeline: of the forwards whose input is ready, each rank runs the one of the
/// earliest group, then of the lowest stage, then of the first micro-batch; groups are those of
/// [`super::interleaved()`] at its default size. So a looped placement turns as interleaved does, and linear
/// placements give [`forward_only`].
///
/// * Makespan, looped with `p | m`: `(m + (p - 1) / v) T_F` without latency.
/// * In flight: a stage runs ahead of the next one only as far as two activation slots and two receive buffers reach,
///   and not at all on the same rank: no evaluation holds more, however many micro-batches it has.
///
/// # Errors
/// [`SizeError`] if `num_micro_batches` is 0, or the sizes are absurdly large.
pub fn forward_only_on(placement: &Placement, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    check(placement.num_stages() as u64, num_micro_batches)?;
    let num_ranks = placement.num_ranks();
    let mut pipeline = Pipeline::new(placement, num_micro_batches);
    let mut rows: Vec<Vec<StageAction>> = vec![Vec::new(); num_ranks];
    while pipeline.num_left > 0 {
        // All ranks choose before any has ended: what runs now is seen from the next turn on.
        let chosen: Vec<_> = (0..num_ranks).map(|rank| pipeline.choose(rank)).collect();
        for (row, stage) in rows.iter_mut().zip(chosen) {
            if let Some(stage) = stage {
                row.push(forward(stage.0, pipeline.num_ended[stage.index()]));
                pipeline.end(stage);
            }
        }
    }
    Ok(ComputeOrder { placement: placement.clone(), num_micro_batches, rows })
}

/// The forwards of a running pipeline, all of one length.
struct Pipeline<'a> {
    placement: &'a Placement,
    num_micro_batches: u32,
    /// `[rank]`
    stages: Vec<Vec<Stage>>,
    /// `[micro-batch]`
    group: Vec<u32>,
    /// `[stage]`: micro-batches through it; they ascend.
    num_ended: Vec<u32>,
    num_left: u64,
}

impl<'a> Pipeline<'a> {
    fn new(placement: &'a Placement, num_micro_batches: u32) -> Self {
        let num_ranks = placement.num_ranks() as u32;
        let of_group = |(group, of): (usize, core::ops::Range<u32>)| of.map(move |_| group as u32);
        let groups = groups(num_micro_batches, num_ranks, num_ranks).into_iter().enumerate();
        Self {
            placement,
            num_micro_batches,
            stages: (0..num_ranks).map(|rank| placement.stages(PipelineRank(rank)).collect()).collect(),
            group: groups.flat_map(of_group).collect(),
            num_ended: vec![0; placement.num_stages()],
            num_left: placement.num_stages() as u64 * u64::from(num_micro_batches),
        }
    }

    fn end(&mut self, stage: Stage) {
        self.num_ended[stage.index()] += 1;
        self.num_left -= 1;
    }

    /// The stage that a rank runs next, if it can run one. Some rank always can: of the stages that have input, the
    /// highest finds nothing waiting before it.
    fn choose(&self, rank: usize) -> Option<Stage> {
        let ready = self.stages[rank].iter().filter(|&&stage| self.has_input(stage) && self.has_room(stage));
        ready.copied().min_by_key(|stage| (self.group[self.num_ended[stage.index()] as usize], *stage))
    }

    fn has_input(&self, stage: Stage) -> bool {
        let before = stage.index().checked_sub(1);
        let num_inputs = before.map_or(self.num_micro_batches, |before| self.num_ended[before]);
        self.num_ended[stage.index()] < num_inputs
    }

    /// Whether the slot that the stage fills has been sent, or read by the next stage on its rank.
    fn has_room(&self, stage: Stage) -> bool {
        let next = Stage(stage.0 + 1);
        let Some(num_read) = self.num_ended.get(next.index()) else { return true };
        let same_rank = self.placement.rank(stage) == self.placement.rank(next);
        let reach = if same_rank { 1 } else { FORWARD_SLOTS + RECEIVE_BUFFERS };
        ((self.num_ended[stage.index()] - num_read) as usize) < reach
    }
}
