//! Causal self-attention, head by head, without keeping the probabilities.
//!
//! The forward keeps each row's log-sum-exp, from which the backward computes the probabilities anew, as
//! FlashAttention does (arXiv:2205.14135). Queries are taken in blocks of rows, each against the keys up to its own
//! last row, so that the masked half is mostly not computed and the scores of one block stay in cache.
//!
//! Dropout, if any, is of the probabilities: after the softmax, so the sums are those of all of them.
//!
//! A row may have several [documents](crate::layer::Tokens::document_starts). Each is computed as if it were alone in a row: its blocks begin at its first token,
//! so its results are to the bit those that it has alone, and what a mask would hide is not computed.
//!
//! Heads of queries may share heads of keys and values (grouped queries, arXiv:2305.13245): neighbouring ones, as many of them to each.
//!
//! Legend: B sequences, T tokens each, N = B T, H heads of queries and G of keys and of values, all of size D, C = H D.
//! `qkv: [N, (H + 2 G) D]` holds every token's queries `[H, D]`, keys and values, each `[G, D]`; `out, dout: [N, C]`;
//! `log_sum_exp: [B, H, T]`.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

pub use backward::backward;
pub use forward::forward;

use std::ops::Range;

use super::documents::{self, documents};
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
    /// H: heads of queries.
    pub num_heads: usize,
    /// G: heads of keys and of values; divides H.
    pub num_kv_heads: usize,
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
        self.num_pairs() * self.num_scores()
    }

    /// Elements of workspace that [`backward()`] needs: for each pair of a sequence and a head of keys two blocks of scores, the gradients
    /// of keys and of values. Where a device works head by head of the queries, it needs their gradients, and a sum for each row of scores.
    pub fn backward_workspace(self) -> usize {
        let of_keys = self.backward_pair_workspace() * self.num_sequences * self.num_kv_heads;
        of_keys.max(self.num_tokens() * self.width() + self.num_log_sum_exp())
    }

    /// Heads of a token in `qkv`: H + 2 G.
    pub fn num_qkv_heads(self) -> usize {
        self.num_heads + 2 * self.num_kv_heads
    }

    /// Elements of a token in `qkv`.
    pub fn qkv_width(self) -> usize {
        self.num_qkv_heads() * self.head_size
    }

    /// Elements of a token in `out`: C.
    pub fn width(self) -> usize {
        self.num_heads * self.head_size
    }

    /// Heads of queries that share one of keys and values.
    pub fn group_size(self) -> usize {
        self.num_heads / self.num_kv_heads
    }

    /// Floating-point operations of [`forward()`], the masked half counted, as is usual where utilisation is reported
    /// (arXiv:2204.02311, appendix B). Saturates.
    pub fn forward_flops(self) -> u64 {
        let sizes = [self.num_sequences, self.num_heads, self.seq_length, self.seq_length, self.head_size];
        sizes.into_iter().fold(4, |flops: u64, size| flops.saturating_mul(size as u64))
    }

    /// Two halves of the sequences, or of the heads of keys where there is but one sequence, with the queries that share them; `None`
    /// for one head of keys of one sequence.
    fn halves(self) -> Option<Halves> {
        if self.num_sequences > 1 {
            let first = Self { num_sequences: self.num_sequences / 2, ..self };
            let second = Self { num_sequences: self.num_sequences - first.num_sequences, ..self };
            let cut = Cut::Row(first.num_tokens());
            Some(Halves { first, second, of_queries: cut, of_keys: cut })
        } else if self.num_kv_heads > 1 {
            let of_keys = self.num_kv_heads / 2;
            let of_queries = of_keys * self.group_size();
            let first = Self { num_kv_heads: of_keys, num_heads: of_queries, ..self };
            let second = Self {
                num_kv_heads: self.num_kv_heads - of_keys,
                num_heads: self.num_heads - of_queries,
                ..self
            };
            let [of_queries, of_keys] =
                [of_queries, of_keys].map(|heads| Cut::Column(heads * self.head_size));
            Some(Halves { first, second, of_queries, of_keys })
        } else {
            None
        }
    }

    /// # Panics
    /// If heads of queries are not as many to each of keys, if there is not a sum for each row of scores or a start for each token, or if
    /// the workspace has less than so many elements.
    fn check(self, mask: Mask<'_>, log_sum_exp: &[f32], workspace: &[f32], min_workspace: usize) {
        documents::check(mask.document_starts, self.num_tokens());
        assert!(self.num_heads.is_multiple_of(self.num_kv_heads), "heads that share heads of keys: {self:?}");
        assert_eq!(log_sum_exp.len(), self.num_log_sum_exp(), "elements of the logarithms of sums");
        assert!(workspace.len() >= min_workspace, "a workspace has at least {min_workspace} elements");
    }

    /// Sequences times heads of queries.
    fn num_pairs(self) -> usize {
        self.num_sequences * self.num_heads
    }

    /// Elements of a block's scores.
    fn num_scores(self) -> usize {
        BLOCK_QUERIES.min(self.seq_length) * self.seq_length
    }

    /// Elements that [`backward()`] needs for one pair: two blocks of scores, the gradients of keys and of values.
    fn backward_pair_workspace(self) -> usize {
        2 * self.num_scores() + 2 * self.seq_length * self.head_size
    }

    fn num_tokens(self) -> usize {
        self.num_sequences * self.seq_length
    }

    /// What scores are multiplied by: `1 / sqrt(D)`.
    fn scale(self) -> f32 {
        1.0 / (self.head_size as f32).sqrt()
    }
}

/// What attention hides, beside later tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mask<'a> {
    /// The probabilities that are dropped.
    pub dropout: Option<Masks>,
    /// `[B, T]`: where each token's document begins in its row; where there are none, a row is one document.
    pub document_starts: Option<&'a [u32]>,
}

impl<'a> Mask<'a> {
    /// The same for one head of the first sequence.
    fn skip_heads(self, num_heads: usize) -> Self {
        Self { dropout: self.dropout.map(|masks| masks.skip_heads(num_heads)), ..self }
    }

    /// The documents of the only sequence.
    fn documents(self, shape: AttentionShape) -> impl Iterator<Item = Range<usize>> + use<'a> {
        documents(self.document_starts, shape.seq_length)
    }
}

/// An attention in two halves.
struct Halves {
    first: AttentionShape,
    second: AttentionShape,
    /// Where matrices of queries are cut between them.
    of_queries: Cut,
    /// Where those of keys and of values are.
    of_keys: Cut,
}

impl Halves {
    /// What each half hides.
    fn masks<'a>(&self, mask: Mask<'a>) -> [Mask<'a>; 2] {
        let Mask { dropout, document_starts } = mask;
        match self.of_queries {
            Cut::Row(num_tokens) => {
                let starts = document_starts.map(|starts| starts.split_at(num_tokens));
                let second = dropout.map(|masks| masks.skip_sequences(self.first.num_sequences));
                [
                    Mask { dropout, document_starts: starts.map(|(first, _)| first) },
                    Mask { dropout: second, document_starts: starts.map(|(_, second)| second) },
                ]
            }
            Cut::Column(_) => [mask, mask.skip_heads(self.first.num_heads)],
        }
    }
}
