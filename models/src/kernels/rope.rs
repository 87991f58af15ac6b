//! Rotary position embeddings (Su et al., arXiv:2104.09864): every head of the queries and keys is turned by angles that grow with the
//! position.
//!
//! Element `i` of a head's first half and element `i` of its second are a pair, as in Llama's published weights; the pair is turned
//! by `position * frequency[i]`. The product is rounded to f32 as PyTorch rounds it, its sine and cosine are computed from that.
//!
//! Legend: N tokens of sequences of T, H + G heads of queries and keys, G of values, each of size D; `qkv: [N, H + 2 G, D]`.

use std::sync::Arc;

use super::attention::AttentionShape;
use super::documents::{self, position_of};
use super::parallel::{for_blocks, write};

/// Pairs whose angles are computed side by side.
const BLOCK_PAIRS: usize = 64;

/// By which angles heads are turned.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// `[D / 2]`: radians per position.
    pub frequencies: Arc<[f32]>,
    /// What sines and cosines are multiplied by: 1 but for YaRN.
    pub scale: f32,
}

/// Which way heads are turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As the forward does.
    Forward,
    /// Back, as gradients are.
    Backward,
}

/// Turns the heads of queries and keys in place, and leaves those of values as they are. Positions are those in a row's
/// [documents](crate::layer::Tokens::document_starts).
///
/// # Panics
/// If there is not one frequency for every two elements of a head.
pub fn turn(
    shape: AttentionShape,
    document_starts: Option<&[u32]>,
    rope: &Rope,
    turn: Turn,
    qkv: &mut [f32],
) {
    let (size, num_pairs) = (shape.head_size, rope.frequencies.len());
    assert_eq!(2 * num_pairs, size, "elements of a head and of the pairs that are turned");
    let num_turned = (shape.num_heads + shape.num_kv_heads) * size;
    let width = shape.qkv_width();
    let num_tokens = qkv.len() / width;
    documents::check(document_starts, num_tokens);
    for_blocks(
        (write(qkv, width), 0..num_tokens),
        #[inline(always)]
        |(qkv, tokens)| {
            for (row, token) in qkv.elements.chunks_exact_mut(width).zip(tokens) {
                let position = position_of(document_starts, shape.seq_length, token) as f32;
                for first in (0..num_pairs).step_by(BLOCK_PAIRS) {
                    let frequencies = &rope.frequencies[first..num_pairs.min(first + BLOCK_PAIRS)];
                    let (sines, cosines) = angles(frequencies, position, rope.scale, turn);
                    for head in row[..num_turned].chunks_exact_mut(size) {
                        let (left, right) = head.split_at_mut(num_pairs);
                        let pairs = left[first..].iter_mut().zip(&mut right[first..]);
                        for ((x, y), (sine, cosine)) in
                            pairs.zip(sines.iter().zip(&cosines)).take(frequencies.len())
                        {
                            (*x, *y) = (*x * cosine - *y * sine, *y * cosine + *x * sine);
                        }
                    }
                }
            }
        },
    );
}

/// Sines and cosines of the angles at a position.
#[inline(always)]
fn angles(
    frequencies: &[f32],
    position: f32,
    scale: f32,
    turn: Turn,
) -> ([f32; BLOCK_PAIRS], [f32; BLOCK_PAIRS]) {
    let sign = if turn == Turn::Forward { scale } else { -scale };
    let (mut sines, mut cosines) = ([0.0; BLOCK_PAIRS], [0.0; BLOCK_PAIRS]);
    for ((sine, cosine), frequency) in sines.iter_mut().zip(&mut cosines).zip(frequencies) {
        (*sine, *cosine) = sine_and_cosine(position * frequency);
        *sine *= sign;
        *cosine *= scale;
    }
    (sines, cosines)
}

/// `1.5 * 2^52`: adding it rounds to the nearest integer and leaves that integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// The upper bits of pi / 2: its product with any number of quarters below `2^20` is exact.
const QUARTER_HIGH: f64 = 1.570_796_326_734_125_6;
/// pi / 2 less its upper bits.
const QUARTER_LOW: f64 = 6.077_100_506_506_192e-11;

/// Sine and cosine of an angle below 1.6 million, in plain arithmetic, so that loops over it vectorise. Within one unit in the last place of
/// 1.
///
/// The angle less the nearest multiple of pi / 2, in f64, and polynomials on what is left. Coefficients: Cephes, `sinf`, `cosf`.
#[inline(always)]
fn sine_and_cosine(angle: f32) -> (f32, f32) {
    let angle = f64::from(angle);
    let shifted = angle * std::f64::consts::FRAC_2_PI + ROUND;
    let quarters = shifted - ROUND;
    let rest = angle - quarters * QUARTER_HIGH - quarters * QUARTER_LOW;
    let square = rest * rest;
    let sine = rest
        + rest
            * square
            * (-1.666_665_461_1e-1 + square * (8.332_160_873_6e-3 + square * -1.951_529_589_1e-4));
    let cosine = 1.0 - 0.5 * square
        + square
            * square
            * (4.166_664_568_298_827e-2
                + square * (-1.388_731_625_493_765e-3 + square * 2.443_315_711_809_948e-5));
    let quarter = shifted.to_bits();
    let (mut of_sine, mut of_cosine) = if quarter & 1 == 1 { (cosine, sine) } else { (sine, cosine) };
    if quarter & 2 == 2 {
        of_sine = -of_sine;
    }
    if quarter.wrapping_add(1) & 2 == 2 {
        of_cosine = -of_cosine;
    }
    (of_sine as f32, of_cosine as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    #[test]
    fn sine_and_cosine_are_within_one_unit_in_the_last_place_of_1() {
        for step in 0..400_000_u32 {
            // From far below one to the last position of the longest contexts.
            let angle = (f64::from(step) / 400_000.0 * 28.0 - 14.0).exp() as f32;
            let (sine, cosine) = sine_and_cosine(angle);
            let (want_sine, want_cosine) = f64::from(angle).sin_cos();
            let error = (f64::from(sine) - want_sine).abs().max((f64::from(cosine) - want_cosine).abs());
            assert!(error < f64::from(f32::EPSILON), "at {angle}: {error:e}");
        }
        assert_eq!(sine_and_cosine(0.0), (0.0, 1.0));
    }

    const SHAPE: AttentionShape =
        AttentionShape { num_sequences: 2, seq_length: 5, num_heads: 3, num_kv_heads: 2, head_size: 6 };

    fn rope() -> Rope {
        Rope { frequencies: [1.0, 0.3, 0.01].into(), scale: 1.25 }
    }

    #[test]
    fn queries_and_keys_are_turned_as_complex_numbers_and_values_are_not() {
        let x = random("x", 10 * SHAPE.qkv_width());
        let mut y = x.clone();
        turn(SHAPE, None, &rope(), Turn::Forward, &mut y);
        for (index, (x_head, y_head)) in x.chunks(6).zip(y.chunks(6)).enumerate() {
            let (token, head) = (index / 7, index % 7);
            if head >= 5 {
                assert_same_bits("values", y_head, x_head);
                continue;
            }
            let mut want = vec![0.0; 6];
            for (pair, frequency) in [1.0, 0.3, 0.01].into_iter().enumerate() {
                let (sine, cosine) = (f64::from(token as u32 % 5) * frequency).sin_cos();
                let (x, y) = (f64::from(x_head[pair]), f64::from(x_head[pair + 3]));
                want[pair] = 1.25 * (x * cosine - y * sine);
                want[pair + 3] = 1.25 * (x * sine + y * cosine);
            }
            assert_close("a head", y_head, &want, 1e-6);
        }
    }

    /// The transpose of a turn: `<turn(x), y> = <x, back(y)>`.
    #[test]
    fn the_backward_is_the_transpose_of_the_forward() {
        let (x, y) = (random("x", 10 * SHAPE.qkv_width()), random("y", 10 * SHAPE.qkv_width()));
        let (mut turned, mut back) = (x.clone(), y.clone());
        turn(SHAPE, None, &rope(), Turn::Forward, &mut turned);
        turn(SHAPE, None, &rope(), Turn::Backward, &mut back);
        let dot =
            |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
        assert!((dot(&turned, &y) - dot(&x, &back)).abs() < 1e-5);
    }

    #[test]
    fn the_heads_of_a_document_are_turned_as_if_it_were_alone() {
        let x = random("x", 10 * SHAPE.qkv_width());
        let starts = [0, 0, 2, 2, 2, 0, 1, 1, 1, 4];
        for direction in [Turn::Forward, Turn::Backward] {
            let mut packed = x.clone();
            turn(SHAPE, Some(&starts), &rope(), direction, &mut packed);
            for document in [0..2, 2..5, 5..6, 6..9, 9..10] {
                let elements = document.start * SHAPE.qkv_width()..document.end * SHAPE.qkv_width();
                let mut alone = x[elements.clone()].to_vec();
                turn(SHAPE, None, &rope(), direction, &mut alone);
                assert_same_bits("a document", &packed[elements], &alone);
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let shape = AttentionShape { seq_length: 700, head_size: 130, ..SHAPE };
        let frequencies: Vec<f32> = (0..65).map(|pair| 0.9_f32.powi(pair)).collect();
        let rope = Rope { frequencies: frequencies.into(), scale: 1.0 };
        let x = random("x", 1400 * shape.qkv_width());
        same_on_all_threads("rope", || {
            let mut y = x.clone();
            turn(shape, None, &rope, Turn::Forward, &mut y);
            y
        });
    }
}
