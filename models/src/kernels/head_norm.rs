//! RMS norms (arXiv:1910.07467) of each head of queries and keys, as Qwen3 has them between its linear maps and its rotary embeddings.
//!
//! Legend: N tokens, H + G heads of queries and keys, G of values, each of size D; `qkv: [N, H + 2 G, D]`; a weight is `[D]`, one for all
//! heads of queries and one for all of keys.

use super::attention::AttentionShape;
use super::columns;
use super::matmul::WriteMode;
use super::parallel::{for_blocks, read, write};
use super::row;

/// The weights of both norms.
#[derive(Clone, Copy, Debug)]
pub struct HeadWeights<'a> {
    /// `[D]`
    pub queries: &'a [f32],
    /// `[D]`
    pub keys: &'a [f32],
}

impl HeadWeights<'_> {
    /// # Panics
    /// If a weight has not as many elements as a head.
    fn check(&self, shape: AttentionShape) {
        let lens = [self.queries.len(), self.keys.len()];
        assert_eq!(lens, [shape.head_size; 2], "elements of the weights of heads");
    }

    /// The weight of a head of a token; `None` for values.
    #[inline(always)]
    fn of(&self, shape: AttentionShape, head: usize) -> Option<&[f32]> {
        match head {
            head if head < shape.num_heads => Some(self.queries),
            head if head < shape.num_heads + shape.num_kv_heads => Some(self.keys),
            _ => None,
        }
    }
}

/// `y = x / sqrt(mean(x^2) + epsilon) * weight` for every head of queries and keys; values are copied.
pub fn forward(shape: AttentionShape, epsilon: f32, x: &[f32], weights: HeadWeights<'_>, y: &mut [f32]) {
    weights.check(shape);
    let (width, size) = (shape.qkv_width(), shape.head_size);
    for_blocks(
        (write(y, width), read(x, width)),
        #[inline(always)]
        |(y, x)| {
            let heads = y.elements.chunks_exact_mut(size).zip(x.elements.chunks_exact(size));
            for (index, (y, x)) in heads.enumerate() {
                let Some(weight) = weights.of(shape, index % shape.num_qkv_heads()) else {
                    y.copy_from_slice(x);
                    continue;
                };
                let scale = scale_of(x, epsilon);
                for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                    *y = x * scale * weight;
                }
            }
        },
    );
}

/// `x` becomes its gradient, given that of `y`: that of values is copied.
pub fn backward_input(
    shape: AttentionShape,
    epsilon: f32,
    x: &mut [f32],
    weights: HeadWeights<'_>,
    dy: &[f32],
) {
    weights.check(shape);
    let (width, size) = (shape.qkv_width(), shape.head_size);
    for_blocks(
        (write(x, width), read(dy, width)),
        #[inline(always)]
        |(x, dy)| {
            let heads = x.elements.chunks_exact_mut(size).zip(dy.elements.chunks_exact(size));
            for (index, (x, dy)) in heads.enumerate() {
                let Some(weight) = weights.of(shape, index % shape.num_qkv_heads()) else {
                    x.copy_from_slice(dy);
                    continue;
                };
                let scale = scale_of(x, epsilon);
                let dot = row::sum_triples(dy, weight, x, |dy, weight, x| dy * weight * x);
                let mean_gn = dot * scale / size as f32;
                for ((x, dy), weight) in x.iter_mut().zip(dy).zip(weight) {
                    *x = scale * (dy * weight - *x * scale * mean_gn);
                }
            }
        },
    );
}

/// The sums over tokens and heads of `dy` times the normalised head, which overwrite `dweights: [queries', keys']` or are added to them.
pub fn backward_weight(
    shape: AttentionShape,
    epsilon: f32,
    x: &[f32],
    dy: &[f32],
    dweights: [&mut [f32]; 2],
    mode: WriteMode,
) {
    let (width, size) = (shape.qkv_width(), shape.head_size);
    assert!(x.len() == dy.len() && x.len().is_multiple_of(width), "{} elements and {}", x.len(), dy.len());
    let num_tokens = x.len() / width;
    let heads = [0..shape.num_heads, shape.num_heads..shape.num_heads + shape.num_kv_heads];
    for (dweight, heads) in dweights.into_iter().zip(heads) {
        assert_eq!(dweight.len(), size, "elements of a head's weight");
        columns::store_sums(
            dweight,
            mode,
            num_tokens * heads.len(),
            #[inline(always)]
            |row, columns, sums| {
                let (token, head) = (row / heads.len(), heads.start + row % heads.len());
                let first = token * width + head * size;
                let (x, dy) = (&x[first..first + size], &dy[first..first + size]);
                let scale = scale_of(x, epsilon);
                for ((sum, x), dy) in sums.iter_mut().zip(&x[columns.clone()]).zip(&dy[columns]) {
                    *sum += dy * (x * scale);
                }
            },
        );
    }
}

#[inline(always)]
fn scale_of(x: &[f32], epsilon: f32) -> f32 {
    1.0 / (row::sum(x, |x| x * x) / x.len() as f32 + epsilon).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::norm::{self, Affine, Norm, NormKind};
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    const EPSILON: f32 = 1e-2;

    const SHAPE: AttentionShape =
        AttentionShape { num_sequences: 1, seq_length: 7, num_heads: 3, num_kv_heads: 2, head_size: 10 };

    /// Each head is a row of a norm with its own weight, and the norm is tested against the definition.
    #[test]
    fn every_head_is_normalised_as_a_row_is() {
        let norm = Norm { kind: NormKind::Rms, epsilon: EPSILON };
        let len = 7 * SHAPE.qkv_width();
        let (x, dy) = (random("x", len), random("dy", len));
        let (queries, keys) = (random("queries", 10), random("keys", 10));
        let weights = HeadWeights { queries: &queries, keys: &keys };
        let (mut y, mut dx) = (vec![f32::NAN; len], x.clone());
        forward(SHAPE, EPSILON, &x, weights, &mut y);
        backward_input(SHAPE, EPSILON, &mut dx, weights, &dy);
        let [mut dqueries, mut dkeys] = [1.0, 2.0].map(|before| vec![before; 10]);
        backward_weight(SHAPE, EPSILON, &x, &dy, [&mut dqueries, &mut dkeys], WriteMode::Add);
        let mut want_weights = [vec![1.0_f64; 10], vec![2.0; 10]];
        for (index, cut) in (0..len).step_by(10).map(|first| first..first + 10).enumerate() {
            let (x, dy) = (&x[cut.clone()], &dy[cut.clone()]);
            let (weight, sums) = match index % 7 {
                0..3 => (&queries, Some(&mut want_weights[0])),
                3..5 => (&keys, Some(&mut want_weights[1])),
                _ => (&keys, None),
            };
            let Some(sums) = sums else {
                assert_same_bits("values", &y[cut.clone()], x);
                assert_same_bits("gradients of values", &dx[cut], dy);
                continue;
            };
            let (mut want, mut statistics) = (vec![0.0; 10], vec![0.0; 2]);
            norm::forward(norm, x, Affine { weight, bias: &[] }, &mut want, &mut statistics);
            assert_same_bits("y", &y[cut.clone()], &want);
            let mode = WriteMode::Overwrite;
            norm::backward_input(norm, x, weight, &statistics, dy, &mut want, mode);
            assert_same_bits("dx", &dx[cut], &want);
            norm::backward_weight(norm, x, &statistics, dy, &mut want, &mut [], mode);
            sums.iter_mut().zip(&want).for_each(|(sum, want)| *sum += f64::from(*want));
        }
        assert_close("dqueries", &dqueries, &want_weights[0], 1e-6);
        assert_close("dkeys", &dkeys, &want_weights[1], 1e-6);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let shape = AttentionShape { seq_length: 600, head_size: 72, ..SHAPE };
        let len = 600 * shape.qkv_width();
        let (x, dy) = (random("x", len), random("dy", len));
        let (queries, keys) = (random("queries", 72), random("keys", 72));
        let weights = HeadWeights { queries: &queries, keys: &keys };
        same_on_all_threads("head norm", || {
            let (mut y, mut dx) = (vec![f32::NAN; len], x.clone());
            forward(shape, EPSILON, &x, weights, &mut y);
            backward_input(shape, EPSILON, &mut dx, weights, &dy);
            let (mut dqueries, mut dkeys) = (vec![0.0; 72], vec![0.0; 72]);
            let dweights = [&mut dqueries[..], &mut dkeys[..]];
            backward_weight(shape, EPSILON, &x, &dy, dweights, WriteMode::Overwrite);
            [y, dx, dqueries, dkeys].concat()
        });
    }
}
