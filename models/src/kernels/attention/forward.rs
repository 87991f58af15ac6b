//! The forward of causal attention.

use std::ops::Range;

use super::super::dropout::Masks;
use super::super::exp::exp;
use super::super::matmul::{Threads, WriteMode, matmul};
use super::super::matrix::{Matrix, MatrixMut};
use super::super::{parallel, row, simd};
use super::{AttentionShape, BLOCK_QUERIES, Halves, Mask};

/// `out = softmax(q kᵀ / sqrt(D), causal) v` for every head and document, probabilities dropped as `mask` says; keeps `log_sum_exp`.
///
/// * `workspace`: [`AttentionShape::forward_workspace`] elements.
pub fn forward(
    shape: AttentionShape,
    mask: Mask<'_>,
    qkv: &[f32],
    out: &mut [f32],
    log_sum_exp: &mut [f32],
    workspace: &mut [f32],
) {
    shape.check(mask, log_sum_exp, workspace, shape.forward_workspace());
    let (num_tokens, width, kv_width) =
        (shape.num_tokens(), shape.width(), shape.num_kv_heads * shape.head_size);
    let qkv = Matrix::new(qkv, num_tokens, shape.qkv_width());
    let task = Task {
        shape,
        mask,
        q: qkv.columns(0, width),
        k: qkv.columns(width, kv_width),
        v: qkv.columns(width + kv_width, kv_width),
        out: MatrixMut::new(out, num_tokens, width),
        log_sum_exp,
        workspace,
    };
    task.run();
}

/// Some sequences and heads; every view covers just these.
struct Task<'a> {
    shape: AttentionShape,
    mask: Mask<'a>,
    q: Matrix<'a>,
    k: Matrix<'a>,
    v: Matrix<'a>,
    out: MatrixMut<'a>,
    log_sum_exp: &'a mut [f32],
    workspace: &'a mut [f32],
}

impl Task<'_> {
    fn run(mut self) {
        if let Some(halves) = self.shape.halves() {
            let (first, second) = self.split(&halves);
            parallel::join(|| first.run(), || second.run());
            return;
        }
        for head in 0..self.shape.num_heads {
            for document in self.mask.documents(self.shape) {
                self.run_head(head, document);
            }
        }
    }

    fn split(self, halves: &Halves) -> (Self, Self) {
        let Halves { first, second, of_queries, of_keys } = *halves;
        let [mask, second_mask] = halves.masks(self.mask);
        let (q, q_rest) = self.q.split(of_queries);
        let (k, k_rest) = self.k.split(of_keys);
        let (v, v_rest) = self.v.split(of_keys);
        let (out, out_rest) = self.out.split(of_queries);
        let (log_sum_exp, log_sum_exp_rest) = self.log_sum_exp.split_at_mut(first.num_log_sum_exp());
        let (workspace, workspace_rest) = self.workspace.split_at_mut(first.forward_workspace());
        (
            Task { shape: first, mask, q, k, v, out, log_sum_exp, workspace },
            Task {
                shape: second,
                mask: second_mask,
                q: q_rest,
                k: k_rest,
                v: v_rest,
                out: out_rest,
                log_sum_exp: log_sum_exp_rest,
                workspace: workspace_rest,
            },
        )
    }

    /// One head of queries of one document of one sequence with the only head of keys, block by block of its queries.
    fn run_head(&mut self, head: usize, document: Range<usize>) {
        let AttentionShape { seq_length, head_size, .. } = self.shape;
        let (start, num_tokens) = (document.start, document.len());
        let q = self.q.columns(head * head_size, head_size).rows(start, num_tokens);
        let [k, v] = [self.k, self.v].map(|of_row| of_row.rows(start, num_tokens));
        let log_sum_exp = &mut self.log_sum_exp[head * seq_length..][document];
        let dropout = self.mask.skip_heads(head).dropout;
        for first in (0..num_tokens).step_by(BLOCK_QUERIES) {
            let num_queries = BLOCK_QUERIES.min(num_tokens - first);
            let num_keys = first + num_queries;
            let scores = &mut self.workspace[..num_queries * num_keys];
            matmul(
                Threads::Caller,
                MatrixMut::new(scores, num_queries, num_keys),
                WriteMode::Overwrite,
                q.rows(first, num_queries),
                k.rows(0, num_keys).transposed(),
            );
            let log_sum_exp = &mut log_sum_exp[first..num_keys];
            let mut factors = [0.0; BLOCK_QUERIES];
            softmax_rows(scores, self.shape.scale(), first, log_sum_exp, &mut factors);
            if let Some(masks) = dropout {
                drop_rows(masks, scores, num_keys, start..start + first);
            }
            let mut out = self.out.columns_mut(head * head_size, head_size);
            let mut out = out.rows_mut(start + first, num_queries);
            let scores = Matrix::new(scores, num_queries, num_keys);
            matmul(
                Threads::Caller,
                out.rows_mut(0, num_queries),
                WriteMode::Overwrite,
                scores,
                v.rows(0, num_keys),
            );
            for (row, factor) in factors[..num_queries].iter().enumerate() {
                out.row_mut(row).iter_mut().for_each(|x| *x *= factor);
            }
        }
    }
}

/// Scores of the queries from `first` on become exponentials, not yet divided by their sum: `factors` gets the
/// divisions, to be made on the D outputs of a row and not on its up to T scores. Masked scores become 0.
fn softmax_rows(
    scores: &mut [f32],
    scale: f32,
    first: usize,
    log_sum_exp: &mut [f32],
    factors: &mut [f32; BLOCK_QUERIES],
) {
    let num_keys = scores.len() / log_sum_exp.len();
    simd::dispatch(
        #[inline(always)]
        || {
            let rows = scores.chunks_exact_mut(num_keys).zip(log_sum_exp).zip(factors).enumerate();
            for (index, ((row, log_sum_exp), factor)) in rows {
                let (visible, masked) = row.split_at_mut(first + index + 1);
                let max = row::max(visible);
                let sum = row::map_and_sum(
                    visible,
                    #[inline(always)]
                    |score| exp((score - max) * scale),
                );
                masked.fill(0.0);
                *factor = 1.0 / sum;
                *log_sum_exp = max * scale + sum.ln();
            }
        },
    );
}

/// Drops scores of the queries behind those `before` them in their document, whose first is the document's.
fn drop_rows(masks: Masks, scores: &mut [f32], num_keys: usize, before: Range<usize>) {
    simd::dispatch(
        #[inline(always)]
        || {
            for (index, row) in scores.chunks_exact_mut(num_keys).enumerate() {
                masks.row(before.end + index).apply(before.start, &mut row[..=before.len() + index]);
            }
        },
    );
}
