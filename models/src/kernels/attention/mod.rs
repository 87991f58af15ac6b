//! Causal self-attention, head by head, without keeping the probabilities.
//!
//! The forward keeps each row's log-sum-exp, from which the backward computes the probabilities anew, as
//! FlashAttention does (arXiv:2205.14135). Queries are taken in blocks of rows, each against the keys up to its own
//! last row, so that the masked half is mostly not computed and the scores of one block stay in cache.
//!
//! Dropout, if any, is of the probabilities: after the softmax, so the sums are those of all of them.
//!
//! Legend: B sequences, T tokens each, N = B T, H heads of size D, C = H D. `qkv: [N, 3 C]` holds every token's
//! queries, keys and values, each `[H, D]`; `out, dout: [N, C]`; `log_sum_exp: [B, H, T]`.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

pub use backward::backward;
pub use forward::forward;

use super::dropout::Masks;
use super::matrix::Cut;

/// Queries of a block.
const BLOCK_QUERIES: usize = 64;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// B.
    pub num_sequences: usize,
    /// T.
    pub seq_length: usize,
    /// H.
    pub num_heads: usize,
    /// D.
    pub head_size: usize,
}

impl AttentionShape {
    /// Elements that `log_sum_exp` has.
    pub fn num_log_sum_exp(self) -> usize {
        self.num_pairs() * self.seq_length
    }

    /// Elements of workspace that [`forward()`] needs.
    pub fn forward_workspace(self) -> usize {
        self.num_pairs() * self.forward_pair_workspace()
    }

    /// Elements of workspace that [`backward()`] needs.
    pub fn backward_workspace(self) -> usize {
        self.num_pairs() * self.backward_pair_workspace()
    }

    /// Floating-point operations of [`forward()`], the masked half counted, as is usual where utilisation is reported
    /// (arXiv:2204.02311, appendix B). Saturates.
    pub fn forward_flops(self) -> u64 {
        let sizes = [self.num_sequences, self.num_heads, self.seq_length, self.seq_length, self.head_size];
        sizes.into_iter().fold(4, |flops: u64, size| flops.saturating_mul(size as u64))
    }

    /// Two halves of the sequences, or of the heads where there is but one sequence, and where matrices are cut
    /// between them; `None` for one head of one sequence.
    fn halves(self) -> Option<(Self, Self, Cut)> {
        if self.num_sequences > 1 {
            let first_half = Self { num_sequences: self.num_sequences / 2, ..self };
            let second_half = Self { num_sequences: self.num_sequences - first_half.num_sequences, ..self };
            Some((first_half, second_half, Cut::Row(first_half.num_tokens())))
        } else if self.num_heads > 1 {
            let first_half = Self { num_heads: self.num_heads / 2, ..self };
            let second_half = Self { num_heads: self.num_heads - first_half.num_heads, ..self };
            Some((first_half, second_half, Cut::Column(first_half.width())))
        } else {
            None
        }
    }

    /// # Panics
    /// If there is not a sum for each row of scores, or if the workspace has less than so many elements.
    fn check(self, log_sum_exp: &[f32], workspace: &[f32], min_workspace: usize) {
        assert_eq!(log_sum_exp.len(), self.num_log_sum_exp(), "elements of the logarithms of sums");
        assert!(workspace.len() >= min_workspace, "a workspace has at least {min_workspace} elements");
    }

    /// Sequences times heads: one task each.
    fn num_pairs(self) -> usize {
        self.num_sequences * self.num_heads
    }

    /// Elements of a block's scores.
    fn num_scores(self) -> usize {
        BLOCK_QUERIES.min(self.seq_length) * self.seq_length
    }

    /// Elements that [`forward()`] needs for one pair.
    fn forward_pair_workspace(self) -> usize {
        self.num_scores()
    }

    /// Elements that [`backward()`] needs for one pair: two blocks of scores, the gradients of keys and of values.
    fn backward_pair_workspace(self) -> usize {
        2 * self.num_scores() + 2 * self.seq_length * self.head_size
    }

    fn num_tokens(self) -> usize {
        self.num_sequences * self.seq_length
    }

    fn width(self) -> usize {
        self.num_heads * self.head_size
    }

    /// What scores are multiplied by: `1 / sqrt(D)`.
    fn scale(self) -> f32 {
        1.0 / (self.head_size as f32).sqrt()
    }
}

/// The masks of a second half.
fn second_half_masks(masks: Masks, first_half: AttentionShape, cut: Cut) -> Masks {
    match cut {
        Cut::Row(_) => masks.skip_sequences(first_half.num_sequences),
        Cut::Column(_) => masks.skip_heads(first_half.num_heads),
    }
}
