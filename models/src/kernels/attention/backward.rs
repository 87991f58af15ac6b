//! The backward of causal attention.

use std::ops::Range;

use super::super::dropout::Masks;
use super::super::exp::exp;
use super::super::matmul::{Threads, WriteMode, matmul};
use super::super::matrix::{Cut, Matrix, MatrixMut};
use super::super::{parallel, row, simd};
use super::{AttentionShape, BLOCK_QUERIES, Halves, Mask};

/// Queries, keys and values turn into their gradients, in place.
///
/// * `mask`, `out` and `log_sum_exp`: as the forward was given and left them; `dout`: the gradient of `out`.
/// * `workspace`: [`AttentionShape::backward_workspace`] elements.
pub fn backward(
    shape: AttentionShape,
    mask: Mask<'_>,
    qkv: &mut [f32],
    out: &[f32],
    log_sum_exp: &[f32],
    dout: &[f32],
    workspace: &mut [f32],
) {
    shape.check(mask, log_sum_exp, workspace, shape.backward_workspace());
    let (num_tokens, width) = (shape.num_tokens(), shape.width());
    let (q, kv) = MatrixMut::new(qkv, num_tokens, shape.qkv_width()).split(Cut::Column(width));
    let (k, v) = kv.split(Cut::Column(shape.num_kv_heads * shape.head_size));
    let task = Task {
        shape,
        mask,
        q,
        k,
        v,
        out: Matrix::new(out, num_tokens, width),
        dout: Matrix::new(dout, num_tokens, width),
        log_sum_exp,
        workspace,
    };
    task.run();
}

/// Some sequences and heads; every view covers just these.
struct Task<'a> {
    shape: AttentionShape,
    mask: Mask<'a>,
    q: MatrixMut<'a>,
    k: MatrixMut<'a>,
    v: MatrixMut<'a>,
    out: Matrix<'a>,
    dout: Matrix<'a>,
    log_sum_exp: &'a [f32],
    workspace: &'a mut [f32],
}

impl Task<'_> {
    fn run(self) {
        if let Some(halves) = self.shape.halves() {
            let (first, second) = self.split(&halves);
            parallel::join(|| first.run(), || second.run());
        } else {
            self.run_heads();
        }
    }

    fn split(self, halves: &Halves) -> (Self, Self) {
        let Halves { first, second, of_queries, of_keys } = *halves;
        let [mask, second_mask] = halves.masks(self.mask);
        let (q, q_rest) = self.q.split(of_queries);
        let (k, k_rest) = self.k.split(of_keys);
        let (v, v_rest) = self.v.split(of_keys);
        let (out, out_rest) = self.out.split(of_queries);
        let (dout, dout_rest) = self.dout.split(of_queries);
        let (log_sum_exp, log_sum_exp_rest) = self.log_sum_exp.split_at(first.num_log_sum_exp());
        let of_first = first.backward_pair_workspace() * first.num_sequences * first.num_kv_heads;
        let (workspace, workspace_rest) = self.workspace.split_at_mut(of_first);
        (
            Task { shape: first, mask, q, k, v, out, dout, log_sum_exp, workspace },
            Task {
                shape: second,
                mask: second_mask,
                q: q_rest,
                k: k_rest,
                v: v_rest,
                out: out_rest,
                dout: dout_rest,
                log_sum_exp: log_sum_exp_rest,
                workspace: workspace_rest,
            },
        )
    }

    /// One head of keys of one sequence with the heads of queries that share it, one after the other.
    ///
    /// Keys and values are needed until the last of them is done, so their gradients gather in the workspace.
    fn run_heads(mut self) {
        let AttentionShape { seq_length, head_size, num_heads, .. } = self.shape;
        let workspace = std::mem::take(&mut self.workspace);
        let (dkv, blocks) = workspace.split_at_mut(2 * seq_length * head_size);
        dkv.fill(0.0);
        let (dk, dv) = dkv.split_at_mut(seq_length * head_size);
        let mut dk = MatrixMut::new(dk, seq_length, head_size);
        let mut dv = MatrixMut::new(dv, seq_length, head_size);
        for head in 0..num_heads {
            for document in self.mask.documents(self.shape) {
                let (start, len) = (document.start, document.len());
                let (mut dk, mut dv) = (dk.rows_mut(start, len), dv.rows_mut(start, len));
                self.run_head(head, document, &mut dk, &mut dv, blocks);
            }
        }
        for row in 0..seq_length {
            self.k.row_mut(row).copy_from_slice(dk.row_mut(row));
            self.v.row_mut(row).copy_from_slice(dv.row_mut(row));
        }
    }

    /// One head of queries in one document, block by block: a block's queries are not needed once it is done, so their gradient takes their
    /// place at once.
    fn run_head(
        &mut self,
        head: usize,
        document: Range<usize>,
        dk: &mut MatrixMut<'_>,
        dv: &mut MatrixMut<'_>,
        blocks: &mut [f32],
    ) {
        let AttentionShape { seq_length, head_size, .. } = self.shape;
        let (probabilities, dscores) = blocks.split_at_mut(self.shape.num_scores());
        let (start, num_tokens) = (document.start, document.len());
        let columns = head * head_size;
        let mut own_q = self.q.columns_mut(columns, head_size);
        let [own_out, own_dout] =
            [self.out, self.dout].map(|of_row| of_row.columns(columns, head_size).rows(start, num_tokens));
        let log_sum_exp = &self.log_sum_exp[head * seq_length..][document];
        let dropout = self.mask.skip_heads(head).dropout;
        for first in (0..num_tokens).step_by(BLOCK_QUERIES) {
            let num_queries = BLOCK_QUERIES.min(num_tokens - first);
            let num_keys = first + num_queries;
            let probabilities = &mut probabilities[..num_queries * num_keys];
            let dscores = &mut dscores[..num_queries * num_keys];
            let keys = self.k.as_matrix().rows(start, num_keys);
            let values = self.v.as_matrix().rows(start, num_keys);
            let mut q = own_q.rows_mut(start + first, num_queries);
            let (out, dout) = (own_out.rows(first, num_queries), own_dout.rows(first, num_queries));
            let log_sum_exp = &log_sum_exp[first..num_keys];

            let scores = MatrixMut::new(probabilities, num_queries, num_keys);
            matmul(Threads::Caller, scores, WriteMode::Overwrite, q.as_matrix(), keys.transposed());
            let dprobabilities = MatrixMut::new(dscores, num_queries, num_keys);
            matmul(Threads::Caller, dprobabilities, WriteMode::Overwrite, dout, values.transposed());
            let rows = SoftmaxRows { scale: self.shape.scale(), start, first, log_sum_exp, out, dout };
            match dropout {
                None => rows.backward(probabilities, dscores),
                Some(masks) => rows.backward_dropped(masks, probabilities, dscores),
            }

            let probabilities = Matrix::new(probabilities, num_queries, num_keys).transposed();
            let dscores = Matrix::new(dscores, num_queries, num_keys);
            matmul(Threads::Caller, dv.rows_mut(0, num_keys), WriteMode::Add, probabilities, dout);
            matmul(
                Threads::Caller,
                dk.rows_mut(0, num_keys),
                WriteMode::Add,
                dscores.transposed(),
                q.as_matrix(),
            );
            matmul(Threads::Caller, q.rows_mut(0, num_queries), WriteMode::Overwrite, dscores, keys);
        }
    }
}

/// A block's rows of scores on their way back through the softmax.
struct SoftmaxRows<'a> {
    scale: f32,
    /// Where the document begins.
    start: usize,
    /// The first row's query in it.
    first: usize,
    log_sum_exp: &'a [f32],
    out: Matrix<'a>,
    dout: Matrix<'a>,
}

impl SoftmaxRows<'_> {
    /// Scores become probabilities `p`, and their gradients `dp` become those of the unscaled scores,
    /// `scale * p (dp - out · dout)`; zero where masked.
    fn backward(&self, scores: &mut [f32], dprobabilities: &mut [f32]) {
        simd::dispatch(
            #[inline(always)]
            || {
                self.for_rows(
                    scores,
                    dprobabilities,
                    #[inline(always)]
                    |_, p, dp, log_sum_exp, mean_dp| {
                        for (p, dp) in p.iter_mut().zip(dp) {
                            *p = exp(*p * self.scale - log_sum_exp);
                            *dp = self.scale * *p * (*dp - mean_dp);
                        }
                    },
                );
            },
        );
    }

    /// As [`SoftmaxRows::backward`] where probabilities were dropped: scores become the dropped probabilities `m p`,
    /// which the gradient of the values needs, and the gradients of these become `scale * p (m dp - out · dout)`.
    fn backward_dropped(&self, masks: Masks, scores: &mut [f32], dprobabilities: &mut [f32]) {
        simd::dispatch(
            #[inline(always)]
            || {
                self.for_rows(
                    scores,
                    dprobabilities,
                    #[inline(always)]
                    |query, p, dp, log_sum_exp, mean_dp| {
                        masks.row(self.start + query).for_groups(
                            self.start..self.start + p.len(),
                            #[inline(always)]
                            |range, factors| {
                                let rows = p[range.clone()].iter_mut().zip(&mut dp[range]);
                                for ((p, dp), factor) in rows.zip(factors) {
                                    let probability = exp(*p * self.scale - log_sum_exp);
                                    *dp = self.scale * probability * (factor * *dp - mean_dp);
                                    *p = factor * probability;
                                }
                            },
                        );
                    },
                );
            },
        );
    }

    /// Calls `f` with each query of the document, its visible scores and their gradients, its log-sum-exp and `out · dout`, which is
    /// the mean of the gradients weighted with the probabilities, dropped or not. What is masked becomes zero.
    #[inline(always)]
    fn for_rows(
        &self,
        scores: &mut [f32],
        dprobabilities: &mut [f32],
        mut f: impl FnMut(usize, &mut [f32], &mut [f32], f32, f32),
    ) {
        let num_keys = scores.len() / self.log_sum_exp.len();
        let rows = scores.chunks_exact_mut(num_keys).zip(dprobabilities.chunks_exact_mut(num_keys));
        for (index, ((p, dp), &log_sum_exp)) in rows.zip(self.log_sum_exp).enumerate() {
            let mean_dp = row::sum_pairs(
                self.out.row(index),
                self.dout.row(index),
                #[inline(always)]
                |out, dout| out * dout,
            );
            let query = self.first + index;
            let (p, p_masked) = p.split_at_mut(query + 1);
            let (dp, dp_masked) = dp.split_at_mut(query + 1);
            p_masked.fill(0.0);
            dp_masked.fill(0.0);
            f(query, p, dp, log_sum_exp, mean_dp);
        }
    }
}
