//! ZB-V: two stages per rank in a V, so that every rank holds the same.

use alloc::vec::Vec;

use super::size::{SizeError, backward_input, backward_weight, check, forward};
use crate::id::PipelineRank;
use crate::order::{ComputeOrder, StageAction};
use crate::placement::Placement;

/// ZB-V (arXiv:2401.10241, section 6): `2 p` stages, stage `s` on rank `s` on the way down the ranks and on rank
/// `2 p - 1 - s` on the way back, so that the last stage lies beside the first.
///
/// ```text
/// p = 2, m = 4, all times equal; 3F0 is the forward of stage 3, micro-batch 0
/// rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3 ..
/// rank 1  ..  1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3
/// ```
///
/// * The longest rank has no bubble at equal times and `m >= 2 p - 1`: `m (T_F + T_I + T_W)`; all ranks together take
///   `(p - 1) T_F / 2` more ([`crate::closed_form::zb_v_makespan`]).
/// * In flight: at most `2 p` activations on every rank until their `I`, each of one stage and micro-batch: as much as
///   1F1B's first rank holds.
/// * Between the two stages of the last rank nothing is sent.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn zb_v(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    check(2 * u64::from(num_ranks), num_micro_batches)?;
    let ranks = (0..num_ranks).chain((0..num_ranks).rev()).map(PipelineRank).collect();
    let placement = Placement::new(ranks).map_err(|_| SizeError::NoRank)?;
    let rows = (0..num_ranks).map(|rank| Row::new(num_ranks, num_micro_batches, rank).made()).collect();
    Ok(ComputeOrder { placement, num_micro_batches, rows })
}

/// A rank's row as it is made: each kind of work of each stage runs its micro-batches in ascending order.
struct Row {
    num_ranks: u32,
    num_micro_batches: u32,
    rank: u32,
    /// Of the way down and the way back: the next forward, input gradient and weight gradient.
    next: [[u32; 3]; 2],
    actions: Vec<StageAction>,
}

/// The two stages of a rank.
const DOWN: usize = 0;
const BACK: usize = 1;

/// The kinds of work, by the actions that they make.
const F: usize = 0;
const I: usize = 1;
const W: usize = 2;
const ACTIONS: [fn(u32, u32) -> StageAction; 3] = [forward, backward_input, backward_weight];

impl Row {
    fn new(num_ranks: u32, num_micro_batches: u32, rank: u32) -> Self {
        let actions = Vec::with_capacity(6 * num_micro_batches as usize);
        Self { num_ranks, num_micro_batches, rank, next: [[0; 3]; 2], actions }
    }

    fn stage(&self, way: usize) -> u32 {
        if way == DOWN { self.rank } else { 2 * self.num_ranks - 1 - self.rank }
    }

    /// So many times the next micro-batch of each of these kinds of work; the pattern is that of at least `2 p - 1`, and
    /// those that a step does not have are left out.
    fn repeat(&mut self, times: u32, work: &[(usize, usize)]) {
        for &(kind, way) in (0..times).flat_map(|_| work) {
            let micro_batch = self.next[way][kind];
            self.next[way][kind] += 1;
            if micro_batch < self.num_micro_batches {
                self.actions.push(ACTIONS[kind](self.stage(way), micro_batch));
            }
        }
    }

    fn made(mut self) -> Vec<StageAction> {
        let (p, rank) = (self.num_ranks, self.rank);
        let n = self.num_micro_batches.max(2 * p - 1);
        self.repeat(2 * (p - rank) - 1, &[(F, DOWN)]);
        self.repeat(rank, &[(F, BACK), (F, DOWN)]);
        self.repeat(p - rank, &[(F, BACK), (I, BACK), (W, BACK)]);
        while self.next[DOWN][F] < n || self.next[BACK][F] < n {
            self.repeat(u32::from(self.next[DOWN][F] < n), &[(F, DOWN)]);
            self.repeat(1, &[(I, DOWN), (W, DOWN), (F, BACK), (I, BACK), (W, BACK)]);
        }
        self.repeat(rank, &[(I, DOWN), (I, BACK)]);
        self.repeat(p - rank, &[(I, DOWN), (W, DOWN)]);
        for way in [BACK, DOWN] {
            self.repeat(n.saturating_sub(self.next[way][W]), &[(W, way)]);
        }
        self.actions
    }
}
