//! The backward of causal attention.

use super::super::dropout::Masks;
use super::super::exp::exp;
use super::super::matmul::{Threads, WriteMode, matmul};
use super::super::matrix::{Cut, Matrix, MatrixMut};
use super::super::{parallel, row, simd};
use super::{AttentionShape, BLOCK_QUERIES, Halves};

/// Queries, keys and values turn into their gradients, in place.
///
/// * `masks`, `out` and `log_sum_exp`: as the forward was given and left them; `dout`: the gradient of `out`.
/// * `workspace`: [`AttentionShape::backward_workspace`] elements.
pub fn backward(
    shape: AttentionShape,
    masks: Option<Masks>,
    qkv: &mut [f32],
    out: &[f32],
    log_sum_exp: &[f32],
    dout: &[f32],
    workspace: &mut [f32],
) {
    shape.check(log_sum_exp, workspace, shape.backward_workspace());
    let (num_tokens, width) = (shape.num_tokens(), shape.width());
    let (q, kv) = MatrixMut::new(qkv, num_tokens, shape.qkv_width()).split(Cut::Column(width));
    let (k, v) = kv.split(Cut::Column(shape.num_kv_heads * shape.head_size));
    let task = Task {
        shape,
        masks,
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
    masks: Option<Masks>,
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
        let (q, q_rest) = self.q.split(of_queries);
        let (k, k_rest) = self.k.split(of_keys);
        let (v, v_rest) = self.v.split(of_keys);
        let (out, out_rest) = self.out.split(of_queries);
        let (dout, dout_rest) = self.dout.split(of_queries);
        let (log_sum_exp, log_sum_exp_rest) = self.log_sum_exp.split_at(first.num_log_sum_exp());
        let of_first = first.backward_pair_workspace() * first.num_sequences * first.num_kv_heads;
        let (workspace, workspace_rest) = self.workspace.split_at_mut(of_first);
        (
            Task { shape: first, masks: self.masks, q, k, v, out, dout, log_sum_exp, workspace },
            Task {
                shape: second,
                masks: self.masks.map(|masks| halves.second_masks(masks)),
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
            self.run_head(head, &mut dk, &mut dv, blocks);
        }
        for row in 0..seq_length {
            self.k.row_mut(row).copy_from_slice(dk.row_mut(row));
            self.v.row_mut(row).copy_from_slice(dv.row_mut(row));
        }
    }

    /// One head of queries, block by block: a block's queries are not needed once it is done, so their gradient takes their place at once.
    fn run_head(&mut self, head: usize, dk: &mut MatrixMut<'_>, dv: &mut MatrixMut<'_>, blocks: &mut [f32]) {
        let AttentionShape { seq_length, head_size, .. } = self.shape;
        let (probabilities, dscores) = blocks.split_at_mut(self.shape.num_scores());
        let columns = head * head_size;
        let mut own_q = self.q.columns_mut(columns, head_size);
        let (own_out, own_dout) =
            (self.out.columns(columns, head_size), self.dout.columns(columns, head_size));
        let log_sum_exp = &self.log_sum_exp[head * seq_length..][..seq_length];
        let masks = self.masks.map(|masks| masks.skip_heads(head));
        for first in (0..seq_length).step_by(BLOCK_QUERIES) {
            let num_queries = BLOCK_QUERIES.min(seq_length - first);
            let num_keys = first + num_queries;
            let probabilities = &mut probabilities[..num_queries * num_keys];
            let dscores = &mut dscores[..num_queries * num_keys];
            let keys = self.k.as_matrix().rows(0, num_keys);
            let values = self.v.as_matrix().rows(0, num_keys);
            let mut q = own_q.rows_mut(first, num_queries);
            let (out, dout) = (own_out.rows(first, num_queries), own_dout.rows(first, num_queries));
            let log_sum_exp = &log_sum_exp[first..num_keys];

            let scores = MatrixMut::new(probabilities, num_queries, num_keys);
            matmul(Threads::Caller, scores, WriteMode::Overwrite, q.as_matrix(), keys.transposed());
            let dprobabilities = MatrixMut::new(dscores, num_queries, num_keys);
            matmul(Threads::Caller, dprobabilities, WriteMode::Overwrite, dout, values.transposed());
            let rows = SoftmaxRows { scale: self.shape.scale(), first, log_sum_exp, out, dout };
            match masks {
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
    /// The first row's query.
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
                        masks.row(query).for_groups(
                            p.len(),
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

    /// Calls `f` with each query, its visible scores and their gradients, its log-sum-exp and `out · dout`, which is
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
