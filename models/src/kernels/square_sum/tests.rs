//! The exact sum against a schoolbook big integer and closed forms, over orders and cuts.

use super::*;
use proptest::prelude::*;

/// The reference: adds one squared mantissa after another to an integer of 32-bit digits, with carries.
#[derive(Clone, Debug, Default, PartialEq)]
struct Schoolbook([u32; NUM_DIGITS]);

impl Schoolbook {
    fn of(elements: &[f32]) -> Self {
        let mut sum = Self::default();
        for element in elements.iter().filter(|element| element.is_finite()) {
            // The element is `mantissa * 2^(place - 149)`, found by scaling and not by reading bits.
            let mut mantissa = f64::from(element.abs()) * 2f64.powi(149);
            let mut place = 0;
            while mantissa >= 2f64.powi(24) {
                mantissa /= 2.0;
                place += 1;
            }
            let mantissa = mantissa as u64;
            sum.add_bits(mantissa * mantissa, 2 * place);
        }
        sum
    }

    fn add_bits(&mut self, value: u64, place: usize) {
        for bit in (0..64).filter(|bit| value >> bit & 1 == 1) {
            let mut position = place + bit;
            while self.0[position / 32] >> (position % 32) & 1 == 1 {
                self.0[position / 32] &= !(1 << (position % 32));
                position += 1;
            }
            self.0[position / 32] |= 1 << (position % 32);
        }
    }
}

fn sum_of(elements: &[f32]) -> SquareSum {
    let mut sum = SquareSum::default();
    sum.add_slice(elements);
    sum
}

fn norm_of(elements: &[f32]) -> f64 {
    sum_of(elements).sqrt_scaled(1.0)
}

fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), -1f32..1.0, Just(0.0), Just(f32::MAX)]
}

proptest! {
    #[test]
    fn the_sum_is_exact(elements in prop::collection::vec(any_f32(), 0..200)) {
        let sum = sum_of(&elements);
        let digits = Schoolbook::of(&elements).0.map(u64::from);
        prop_assert_eq!(&sum.limbs()[..NUM_DIGITS], &digits[..]);
        prop_assert_eq!(sum.is_finite(), elements.iter().all(|element| element.is_finite()));
    }

    #[test]
    fn order_and_cuts_do_not_change_a_bit(
        (elements, shuffled) in prop::collection::vec(any_f32(), 0..200)
            .prop_flat_map(|elements| (Just(elements.clone()), Just(elements).prop_shuffle())),
        cuts in prop::collection::vec(0usize..200, 0..6),
    ) {
        let whole = sum_of(&elements);
        prop_assert_eq!(&sum_of(&shuffled), &whole);

        // As ranks do it: each sums its shard, words are added in some order, carries are taken once at the end.
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(shuffled.len())).collect();
        cuts.extend([0, shuffled.len()]);
        cuts.sort_unstable();
        let mut words = [0u64; NUM_LIMBS];
        let mut merged = SquareSum::default();
        for range in cuts.windows(2).rev() {
            let shard = sum_of(&shuffled[range[0]..range[1]]);
            words.iter_mut().zip(shard.limbs()).for_each(|(word, limb)| *word += limb);
            merged.merge(&shard);
        }
        prop_assert_eq!(&SquareSum::from_limbs(words), &whole);
        prop_assert_eq!(&merged, &whole);
        prop_assert_eq!(merged.sqrt_scaled(0.3).to_bits(), whole.sqrt_scaled(0.3).to_bits());
    }

    #[test]
    fn the_norm_agrees_with_f64(elements in prop::collection::vec(-1e3f32..1e3, 1..500)) {
        let reference = elements.iter().map(|&element| f64::from(element).powi(2)).sum::<f64>().sqrt();
        // 500 additions in f64 lose at most 500 * 2^-53 relative; the root halves it.
        prop_assert!((norm_of(&elements) - reference).abs() <= 3e-14 * reference);
    }
}

#[test]
fn every_exponent_has_its_place() {
    // One element's norm is the element itself, exactly: its square has 48 bits, and f64's root of the rounded square
    // of a 24-bit number is that number.
    for exponent in 0..=254u32 {
        for mantissa in [0, 1, 0x2a_5a5a, 0x7f_ffff] {
            let element = f32::from_bits(exponent << 23 | mantissa);
            assert_eq!(norm_of(&[element]), f64::from(element), "{element:e}");
            assert_eq!(norm_of(&[-element]), f64::from(element), "-{element:e}");
        }
    }
}

#[test]
fn full_bins_do_not_overflow() {
    // Largest mantissas, all with one exponent, over several blocks and the beginning of one. The exponent is one whose
    // place lies highest in its limb.
    let element = f32::from_bits(128 << 23 | 0x7f_ffff);
    let count = 4 * BLOCK + NUM_LANES + 3;
    let mantissa = (1u128 << 24) - 1;
    // The element is mantissa * 2^-22, so its square has 44 places, and the sum's last place is 2^-298.
    let mut expected = SquareSum::default();
    let mut rest = mantissa * mantissa * count as u128;
    for bit in 0..128 {
        if rest & 1 == 1 {
            let place = LAST_PLACE as usize - 44 + bit;
            expected.limbs[place / 32] |= 1 << (place % 32);
        }
        rest >>= 1;
    }
    assert_eq!(sum_of(&vec![element; count]), expected);
}

#[test]
fn extremes_lose_nothing() {
    assert_eq!(norm_of(&[]), 0.0);
    assert_eq!(norm_of(&[0.0, -0.0]), 0.0);
    assert_eq!(norm_of(&[3.0, -4.0]), 5.0);
    assert_eq!(norm_of(&[f32::MAX; 4]), 2.0 * f64::from(f32::MAX));
    let smallest = f32::from_bits(1);
    assert_eq!(norm_of(&[smallest; 4]), 2.0 * f64::from(smallest));

    // Adding the smallest subnormal to the largest number changes the sum, though not its rounding.
    assert_ne!(sum_of(&[f32::MAX, smallest]), sum_of(&[f32::MAX]));
    assert_eq!(norm_of(&[f32::MAX, smallest]), f64::from(f32::MAX));
}

#[test]
fn rounding_is_to_nearest_even_and_sees_the_last_bit() {
    let half_place = 2f32.powi(-27);
    // 1 + 2^-54 + 2^-54 = 1 + 2^-53 is a tie and rounds to even.
    assert_eq!(sum_of(&[1.0, half_place, half_place]).to_f64(), 1.0);
    // The smallest square there is, 245 places further down, breaks it.
    let smallest = f32::from_bits(1);
    assert_eq!(sum_of(&[1.0, half_place, half_place, smallest]).to_f64(), 1.0 + f64::EPSILON);
}

#[test]
fn infinities_and_nan_are_never_forgotten() {
    for broken in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0xff80_0001)] {
        let mut sum = sum_of(&[1.0, broken, 2.0]);
        assert!(!sum.is_finite());
        assert!(sum.sqrt_scaled(1.0).is_nan());
        sum.merge(&sum_of(&[1.0]));
        assert!(!sum.is_finite());

        // Through the words of many ranks, too.
        let words = sum.limbs().map(|limb| limb * 1000);
        assert!(!SquareSum::from_limbs(words).is_finite());
        assert!(!SquareSum::from_limbs(sum.limbs()).is_finite());
    }
}

#[test]
fn a_thousand_ranks_add_up_before_carries_are_taken() {
    let shard = sum_of(&[f32::MAX, 1.5, 1e-30]);
    let words = shard.limbs().map(|limb| limb * 1000);
    assert_eq!(SquareSum::from_limbs(words), sum_of(&[f32::MAX, 1.5, 1e-30].repeat(1000)));
}

#[test]
fn the_factor_scales_the_norm() {
    assert_eq!(sum_of(&[3.0, 4.0]).sqrt_scaled(0.25), 1.25);
    assert_eq!(sum_of(&[3.0, 4.0]).sqrt_scaled(0.0), 0.0);
}
