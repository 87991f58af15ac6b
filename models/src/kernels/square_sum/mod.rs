//! The gradient norm, computed exactly: a sum of squares that no order, cut or number of ranks can change.
//!
//! Adding floating-point squares rounds at every addition, so the norm would depend on where shards cut and on the
//! order in which ranks are added, and with it the clipping factor and every weight. Here nothing rounds until the
//! end. The square of an f32 with mantissa `m` (24 bits) and biased exponent `e` is `m * m * 2^(2e - 300)`: an integer
//! of 48 bits at one of 254 places. Squares are collected in one bin per exponent, bins are folded into one fixed-point
//! integer of 608 bits, and integers add up to the same bits in any order.
//!
//! Rejected: f64 with Kahan's compensation (more digits, still an order), and rounding to a common grid under the global
//! maximum (Demmel and Nguyen, "Fast reproducible floating-point summation", ARITH 2013), which takes a reduction for
//! the maximum before the sum and still rounds.

use rayon::prelude::*;

/// Words of a [`SquareSum`]: 19 limbs of 32 bits and the mark for infinities and NaN.
pub const NUM_LIMBS: usize = 20;

/// Limbs that hold the number; the last word is [`NON_FINITE`].
const NUM_DIGITS: usize = NUM_LIMBS - 1;

/// The word that is not 0 when an element was infinite or NaN.
const NON_FINITE: usize = NUM_LIMBS - 1;

/// Bits of a limb; the upper half of its `u64` takes carries, so that sums of limbs need no carry chain.
const LIMB_BITS: usize = 32;

/// The last place of the sum is `2^-LAST_PLACE`: the square of the smallest subnormal, `2^-149`.
const LAST_PLACE: i32 = 298;

/// Bins of different lanes are independent, so that an addition need not wait for the last one to the same exponent
/// (gradients share few exponents).
const NUM_LANES: usize = 8;

/// Elements between two folds, and of one thread's turn: enough that a fold costs nothing beside them.
const BLOCK: usize = NUM_LANES << 14;
const _: () = {
    assert!(BLOCK / NUM_LANES <= 1 << 16, "2^16 squares of 48 bits are what a bin of 64 bits holds");
    assert!(BLOCK <= 1 << 18, "a block's total, shifted by up to 30 bits, must fit three limbs");
};

/// One bin per biased exponent.
type Bins = [u64; 256];

/// An exact sum of squares of f32 elements.
///
/// A fixed-point number with 298 binary places. The largest square is below `2^256`, so 608 bits hold the sum of
/// `2^54` elements of any size. The form is canonical (every limb below `2^32`), so equal sums are equal bit for bit:
///
/// ```
/// use pipezero_models::kernels::square_sum::SquareSum;
///
/// let (mut whole, mut left, mut right) = (SquareSum::default(), SquareSum::default(), SquareSum::default());
/// whole.add_slice(&[1e20, 3.0, -4e-20]);
/// left.add_slice(&[-4e-20]);
/// right.add_slice(&[3.0, 1e20]);
/// left.merge(&right);
/// assert_eq!(left, whole);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SquareSum {
    limbs: [u64; NUM_LIMBS],
}

impl SquareSum {
    /// Adds the square of every element, on the threads of the current rayon pool. An infinity or NaN is remembered
    /// and never forgotten.
    pub fn add_slice(&mut self, elements: &[f32]) {
        let blocks = elements.par_chunks(BLOCK).fold(Self::default, |mut sum, block| {
            sum.add_block(block);
            sum
        });
        self.merge(&blocks.reduce(Self::default, |mut left, right| {
            left.merge(&right);
            left
        }));
    }

    /// The sum as 20 words, each below `2^32`, to be added word by word to those of other ranks in any order; up to
    /// `2^32` ranks cannot overflow a word. See [`SquareSum::from_limbs`].
    pub fn limbs(&self) -> [u64; NUM_LIMBS] {
        self.limbs
    }

    /// The same words in 32 bits each: every limb is below `2^32` unless more than `2^54` elements were added.
    ///
    /// # Panics
    /// If so many were.
    pub fn words(&self) -> [u32; NUM_LIMBS] {
        self.limbs.map(|limb| u32::try_from(limb).expect("at most 2^54 squares are added"))
    }

    /// The sum whose words, or sums of words of several ranks, are these.
    pub fn from_limbs(limbs: [u64; NUM_LIMBS]) -> Self {
        let mut sum = Self { limbs };
        sum.carry();
        sum
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        for (limb, other) in self.limbs.iter_mut().zip(other.limbs) {
            *limb += other;
        }
        self.carry();
    }

    /// Whether every element was finite.
    pub fn is_finite(&self) -> bool {
        self.limbs[NON_FINITE] == 0
    }

    /// `factor * sqrt(sum)`: the norm of the elements, were each multiplied by `factor >= 0`. NaN if an element was
    /// infinite or NaN.
    ///
    /// The sum is rounded to f64 once, correctly, so equal sums give equal bits.
    pub fn sqrt_scaled(&self, factor: f64) -> f64 {
        if self.is_finite() { self.to_f64().sqrt() * factor } else { f64::NAN }
    }

    /// Bins the squares of at most [`BLOCK`] elements and folds the bins in.
    fn add_block(&mut self, block: &[f32]) {
        debug_assert!(block.len() <= BLOCK, "a bin would overflow");
        let mut lanes: [Bins; NUM_LANES] = [[0; 256]; NUM_LANES];
        let mut groups = block.chunks_exact(NUM_LANES);
        for group in &mut groups {
            for (bins, &element) in lanes.iter_mut().zip(group) {
                add_square(bins, element);
            }
        }
        for (bins, &element) in lanes.iter_mut().zip(groups.remainder()) {
            add_square(bins, element);
        }
        for exponent in 0..=254 {
            let total = lanes.iter().map(|bins| u128::from(bins[exponent])).sum();
            self.add_at(total, exponent);
        }
        if lanes.iter().any(|bins| bins[255] != 0) {
            self.limbs[NON_FINITE] = 1;
        }
        self.carry();
    }

    /// Adds the total of a block's squared mantissas, below `2^65`, of elements with this biased exponent.
    fn add_at(&mut self, total: u128, exponent: usize) {
        // Subnormals (exponent 0) have the place of exponent 1 and no leading 1.
        let place = 2 * exponent.saturating_sub(1);
        let mut rest = total << (place % LIMB_BITS);
        // Places are even, so at most 65 + 30 bits: three limbs. The highest place, 506, begins in limb 15.
        for limb in &mut self.limbs[place / LIMB_BITS..][..3] {
            *limb += (rest & 0xffff_ffff) as u64;
            rest >>= LIMB_BITS;
        }
    }

    /// Brings every limb below `2^32`, the top one aside, which only more than `2^54` elements could fill.
    fn carry(&mut self) {
        let mut carry = 0;
        for limb in &mut self.limbs[..NUM_DIGITS - 1] {
            let total = *limb + carry;
            *limb = total & 0xffff_ffff;
            carry = total >> LIMB_BITS;
        }
        self.limbs[NUM_DIGITS - 1] += carry;
        self.limbs[NON_FINITE] = self.limbs[NON_FINITE].min(1);
    }

    /// The sum, rounded to nearest, ties to even.
    fn to_f64(&self) -> f64 {
        let digits = &self.limbs[..NUM_DIGITS];
        let Some(top) = digits.iter().rposition(|&limb| limb != 0) else { return 0.0 };
        // Three limbs have at least 65 bits, 12 more than f64 keeps. What lies below them only breaks ties, so one
        // sticky bit stands for all of it.
        let low = top.saturating_sub(2);
        let head =
            digits[low..=top].iter().rev().fold(0u128, |head, &limb| (head << LIMB_BITS) | u128::from(limb));
        let sticky = digits[..low].iter().any(|&limb| limb != 0);
        let exponent = (LIMB_BITS * low) as i32 - LAST_PLACE;
        (head | u128::from(sticky)) as f64 * power_of_two(exponent)
    }
}

/// Adds the squared mantissa to the bin of the exponent. An infinity's mantissa has its leading 1, so bin 255 is not 0
/// after any infinity or NaN.
#[inline(always)]
fn add_square(bins: &mut Bins, element: f32) {
    let bits = element.to_bits();
    let exponent = (bits >> 23) as u8;
    let mantissa = u64::from(bits & 0x007f_ffff | u32::from(exponent != 0) << 23);
    bins[usize::from(exponent)] += mantissa * mantissa;
}

/// `2^exponent`, for exponents of normal f64 numbers.
fn power_of_two(exponent: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&exponent), "2^{exponent} is not a normal f64");
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests;
