//! From one element type to another, element by element.

use crate::element::Float;

use super::parallel::{for_blocks, read, write};

/// `y = x` in another type: exactly where it is wider, to nearest even where it is narrower.
pub fn convert<S: Float, D: Float>(x: &[S], y: &mut [D]) {
    for_blocks(
        (write(y, 1), read(x, 1)),
        #[inline(always)]
        |(y, x)| {
            for (y, x) in y.elements.iter_mut().zip(x.elements) {
                *y = D::narrow(x.widen());
            }
        },
    );
}

/// `x` is converted to `E` and back.
pub fn round<E: Float>(x: &mut [f32]) {
    for_blocks(
        write(x, 1),
        #[inline(always)]
        |x| {
            for x in x.elements.iter_mut() {
                *x = E::narrow(*x).widen();
            }
        },
    );
}

/// Each row of `width` becomes elements of 16 bits, two in the place of one, at its beginning; an odd one is followed by what was there.
pub fn narrow_rows(x: &mut [f32], width: usize, narrow: impl Fn(f32) -> u16) {
    for row in x.chunks_exact_mut(width) {
        for index in 0..width {
            let bits = u32::from(narrow(row[index]));
            let pair = &mut row[index / 2];
            let (kept, shift) = if index % 2 == 0 { (0xffff_0000, 0) } else { (0x0000_ffff, 16) };
            *pair = f32::from_bits(pair.to_bits() & kept | bits << shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::testing::{assert_same_bits, random, same_on_all_threads};

    fn check<E: Float>(reference: impl Fn(f32) -> f32) {
        let x: Vec<f32> = random("x", 40_001).iter().map(|x| 1e3 * x).collect();
        let want: Vec<f32> = x.iter().map(|&x| reference(x)).collect();
        let converted = same_on_all_threads("convert", || {
            let (mut narrow, mut wide) = (vec![E::default(); x.len()], vec![f32::NAN; x.len()]);
            convert(&x, &mut narrow);
            convert(&narrow, &mut wide);
            wide
        });
        assert_same_bits("converted", &converted, &want);
        let rounded = same_on_all_threads("round", || {
            let mut rounded = x.clone();
            round::<E>(&mut rounded);
            rounded
        });
        assert_same_bits("rounded", &rounded, &want);
    }

    #[test]
    fn conversions_equal_those_of_the_half_crate_at_every_place() {
        check::<bf16>(|x| bf16::from_f32(x).to_f32());
        check::<f16>(|x| f16::from_f32(x).to_f32());
        check::<f32>(|x| x);
    }
}
