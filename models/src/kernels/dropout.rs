//! Dropout (arXiv:1207.0580): elements become 0 with probability `p`, the others are divided by `1 - p`.
//!
//! A mask is a function of the step, the sequence's place in the step's global batch, the place in the model, the head
//! and the position (Philox 4x32-10), and of nothing else. So it is the same on every grid, for every micro-batch
//! size and number of threads, and it is computed again in the backward and in a recomputation instead of being kept.
//!
//! Two levels of keys: the seed's key turns (step, sequence) into the sequence's key, and that one turns
//! `[16 (e / 64) + e mod 16, position, head, place]` into the four numbers of the elements `e` of a row, number
//! `e / 16 mod 4` each. Sixteen neighbours so come from sixteen counters, as vector units like it.
//!
//! Legend: B sequences, T tokens each, N = B T, C columns; `x, y: [N, C]`.

use std::ops::Range;

use crate::micro_batch::{MaskKey, MicroBatchShape};

use super::parallel::{for_blocks, read, write};
use super::philox;

/// Counters taken side by side.
const NUM_LANES: usize = 16;
/// Elements that these give numbers to.
const GROUP: usize = 4 * NUM_LANES;

/// Where in the model something is dropped. No two places share a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The sum of token and position embedding.
    Embedding,
    /// The attention weights of this transformer block.
    AttentionWeights(usize),
    /// What attention adds to the residual stream in this block.
    AttentionBranch(usize),
    /// What the feed-forward half adds to the residual stream in this block.
    MlpBranch(usize),
}

impl Place {
    fn number(self) -> u32 {
        let of_block = |block: usize, kind: u32| 1 + 3 * block as u32 + kind;
        match self {
            Self::Embedding => 0,
            Self::AttentionWeights(block) => of_block(block, 0),
            Self::AttentionBranch(block) => of_block(block, 1),
            Self::MlpBranch(block) => of_block(block, 2),
        }
    }
}

/// What a place drops, in every micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// An element is dropped if its number is below this.
    threshold: u32,
    /// What the others are multiplied by.
    scale: f32,
    place: u32,
}

impl Dropout {
    /// Dropping with this `probability`, from 0 to below 1, in units of 2^-32; `None` for 0.
    pub fn new(probability: f64, place: Place) -> Option<Self> {
        let threshold = (probability * 2_f64.powi(32)).round() as u32;
        let scale = (1.0 / (1.0 - probability)) as f32;
        (threshold > 0).then_some(Self { threshold, scale, place: place.number() })
    }

    /// The masks of a micro-batch.
    pub fn masks(self, key: MaskKey, shape: MicroBatchShape) -> Masks {
        Masks { dropout: self, key, first_head: 0, seq_length: shape.seq_length }
    }
}

/// The masks of one place for one micro-batch, or for some of its sequences and heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masks {
    dropout: Dropout,
    key: MaskKey,
    first_head: usize,
    seq_length: usize,
}

impl Masks {
    /// The masks of what is left behind the first `num_sequences`.
    pub(super) fn skip_sequences(self, num_sequences: usize) -> Self {
        let first_sequence = self.key.first_sequence + num_sequences as u64;
        Self { key: MaskKey { first_sequence, ..self.key }, ..self }
    }

    /// The masks of what is left behind the first `num_heads`.
    pub(super) fn skip_heads(self, num_heads: usize) -> Self {
        Self { first_head: self.first_head + num_heads, ..self }
    }

    /// The mask of one row of the first sequence and head: the weights of one query, say.
    #[inline(always)]
    pub(super) fn row(self, position: usize) -> RowMask {
        let MaskKey { seed, step, first_sequence } = self.key;
        let low_and_high = |number: u64| [number as u32, (number >> 32) as u32];
        let ([a, b], [c, d]) = (low_and_high(step), low_and_high(first_sequence));
        let [key_a, key_b, ..] = philox::block(low_and_high(seed), [a, b, c, d]);
        RowMask {
            dropout: self.dropout,
            key: [key_a, key_b],
            position: position as u32,
            head: self.first_head as u32,
        }
    }

    /// What a device draws the same masks from: the key, the place, the threshold, the scale, and the tokens of a sequence.
    pub(crate) fn parts(self) -> (MaskKey, u32, u32, f32, usize) {
        let Dropout { threshold, scale, place } = self.dropout;
        (self.key, place, threshold, scale, self.seq_length)
    }

    /// The mask of row `n` of the micro-batch's `N`.
    #[inline(always)]
    fn row_of(self, n: usize) -> RowMask {
        self.skip_sequences(n / self.seq_length).row(n % self.seq_length)
    }
}

/// The mask of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowMask {
    dropout: Dropout,
    key: [u32; 2],
    position: u32,
    head: u32,
}

impl RowMask {
    /// Calls `f` with some neighbours after the other of a row's elements `of`, those of one [`GROUP`] each time, counted from the first of
    /// `of`, and what each of them is multiplied by: 0 or the scale.
    #[inline(always)]
    pub(super) fn for_groups(self, of: Range<usize>, mut f: impl FnMut(Range<usize>, &[f32])) {
        for group in of.start / GROUP..of.end.div_ceil(GROUP) {
            let first = group * GROUP;
            let (start, end) = (of.start.max(first), of.end.min(first + GROUP));
            f(start - of.start..end - of.start, &self.factors(group)[start - first..]);
        }
    }

    /// Multiplies a row's elements from `first` on by their mask.
    #[inline(always)]
    pub(super) fn apply(self, first: usize, row: &mut [f32]) {
        self.for_groups(
            first..first + row.len(),
            #[inline(always)]
            |range, factors| {
                for (x, factor) in row[range].iter_mut().zip(factors) {
                    *x *= factor;
                }
            },
        );
    }

    #[inline(always)]
    fn factors(self, group: usize) -> [f32; GROUP] {
        let mut columns = [0; NUM_LANES];
        for (lane, column) in columns.iter_mut().enumerate() {
            *column = (group * NUM_LANES + lane) as u32;
        }
        let others = [self.position, self.head, self.dropout.place].map(|word| [word; NUM_LANES]);
        let numbers = philox::blocks(self.key, [columns, others[0], others[1], others[2]]);
        let mut factors = [0.0; GROUP];
        for (factor, &number) in factors.iter_mut().zip(numbers.as_flattened()) {
            *factor = if number < self.dropout.threshold { 0.0 } else { self.dropout.scale };
        }
        factors
    }
}

/// `x *= mask`.
pub fn apply(masks: Masks, x: &mut [f32], width: usize) {
    let num_rows = x.len() / width;
    for_blocks(
        (write(x, width), 0..num_rows),
        #[inline(always)]
        |(x, numbers)| {
            for (x, n) in x.elements.chunks_exact_mut(width).zip(numbers) {
                masks.row_of(n).apply(0, x);
            }
        },
    );
}

/// `y = x + mask * y`: a branch joins the residual stream.
pub fn add_residual(masks: Masks, x: &[f32], y: &mut [f32], width: usize) {
    let num_rows = x.len() / width;
    for_blocks(
        (write(y, width), read(x, width), 0..num_rows),
        #[inline(always)]
        |(y, x, numbers)| {
            let rows = y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(width));
            for ((y, x), n) in rows.zip(numbers) {
                masks.row_of(n).apply(0, y);
                for (y, x) in y.iter_mut().zip(x) {
                    *y += x;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_same_bits, random, same_on_all_threads};

    const KEY: MaskKey = MaskKey { seed: 3, step: 5, first_sequence: 40 };
    const SHAPE: MicroBatchShape = MicroBatchShape { num_sequences: 4, seq_length: 150 };

    fn masks(probability: f64, place: Place, key: MaskKey) -> Masks {
        Dropout::new(probability, place).unwrap().masks(key, SHAPE)
    }

    /// What ones become.
    fn factors(masks: Masks, width: usize) -> Vec<f32> {
        let mut x = vec![1.0; SHAPE.num_tokens() * width];
        apply(masks, &mut x, width);
        x
    }

    #[test]
    fn the_share_dropped_is_the_probability_and_the_rest_makes_up_for_it() {
        let width = 301;
        for probability in [0.001, 0.1, 0.5, 0.9] {
            let factors = factors(masks(probability, Place::Embedding, KEY), width);
            let num = factors.len() as f64;
            let num_dropped = factors.iter().filter(|&&factor| factor == 0.0).count() as f64;
            // Five standard deviations of a binomial distribution.
            let bound = 5.0 * (probability * (1.0 - probability) / num).sqrt();
            assert!((num_dropped / num - probability).abs() < bound, "{num_dropped} of {num}");
            let scale = (1.0 / (1.0 - probability)) as f32;
            assert!(factors.iter().all(|&factor| factor == 0.0 || factor == scale));
        }
    }

    #[test]
    fn probability_zero_is_no_dropout() {
        assert_eq!(Dropout::new(0.0, Place::Embedding), None);
    }

    #[test]
    fn a_row_depends_on_its_place_in_the_step_and_not_on_the_micro_batch() {
        let place = Place::MlpBranch(1);
        let width = 70;
        let whole = factors(masks(0.3, place, KEY), width);
        for first in 0..SHAPE.num_sequences {
            let key = MaskKey { first_sequence: KEY.first_sequence + first as u64, ..KEY };
            let part = factors(masks(0.3, place, key), width);
            let start = first * SHAPE.seq_length * width;
            assert_same_bits("sequences", &part[..whole.len() - start], &whole[start..]);
        }
    }

    /// Two independent masks agree in `p^2 + (1 - p)^2` of their elements.
    #[test]
    fn every_part_of_the_key_gives_another_mask() {
        let of = |place, key| factors(masks(0.5, place, key), 64);
        let first = of(Place::AttentionBranch(0), KEY);
        let others = [
            of(Place::AttentionBranch(1), KEY),
            of(Place::AttentionWeights(0), KEY),
            of(Place::MlpBranch(0), KEY),
            of(Place::Embedding, KEY),
            of(Place::AttentionBranch(0), MaskKey { seed: 4, ..KEY }),
            of(Place::AttentionBranch(0), MaskKey { seed: 3 + (1 << 32), ..KEY }),
            of(Place::AttentionBranch(0), MaskKey { step: 6, ..KEY }),
            of(Place::AttentionBranch(0), MaskKey { first_sequence: 41, ..KEY }),
            factors(masks(0.5, Place::AttentionBranch(0), KEY).skip_heads(1), 64),
            // The same mask, shifted by an element, a row of sixteen, a group and so a position.
            first[1..].to_vec(),
            first[16..].to_vec(),
            first[64..].to_vec(),
        ];
        for (index, other) in others.iter().enumerate() {
            let num = other.len() as f64;
            let num_equal = first.iter().zip(other).filter(|(a, b)| a == b).count() as f64;
            // Five standard deviations.
            assert!((num_equal / num - 0.5).abs() < 2.5 / num.sqrt(), "{index}: {num_equal} of {num}");
        }
    }

    #[test]
    fn both_forms_multiply_by_the_same_mask_on_every_number_of_threads() {
        let width = 131;
        let masks = masks(0.2, Place::MlpBranch(0), KEY);
        let (x, branch) = (random("x", SHAPE.num_tokens() * width), random("y", SHAPE.num_tokens() * width));
        let masked = same_on_all_threads("apply", || {
            let mut y = branch.clone();
            apply(masks, &mut y, width);
            y
        });
        let added = same_on_all_threads("add", || {
            let mut y = branch.clone();
            add_residual(masks, &x, &mut y, width);
            y
        });
        let want: Vec<f32> = masked.iter().zip(&x).map(|(y, x)| y + x).collect();
        assert_same_bits("residual", &added, &want);
    }

    #[test]
    fn a_part_of_a_row_has_its_part_of_the_mask() {
        let row = masks(0.5, Place::AttentionWeights(0), KEY).row(7);
        let mut whole = vec![1.0; 200];
        row.apply(0, &mut whole);
        for (first, end) in [(0, 1), (1, 200), (63, 65), (64, 128), (70, 71), (130, 199), (200, 200)] {
            let mut part = vec![1.0; end - first];
            row.apply(first, &mut part);
            assert_same_bits("a part", &part, &whole[first..end]);
        }
    }

    #[test]
    fn the_counters_are_the_documented_ones() {
        let factors = factors(masks(0.25, Place::AttentionBranch(2), KEY), 200);
        let [key_a, key_b, ..] = philox::block([3, 0], [5, 0, 41, 0]);
        for e in 0..200 {
            let column = 16 * (e / 64) + e % 16;
            let numbers = philox::block([key_a, key_b], [column as u32, 149, 0, 8]);
            let is_dropped = numbers[e / 16 % 4] < 1 << 30;
            assert_eq!(factors[(150 + 149) * 200 + e] == 0.0, is_dropped, "element {e}");
        }
    }
}
