//! Sums along a row, in an order that depends on nothing but the row's length.
//!
//! Element `i` goes to lane `i mod 16`, and the lanes are added pairwise at the end. That is what a vector unit does
//! well, and it is the same order on every width.

const NUM_LANES: usize = 16;

/// Adds up `term(x)` over a row.
#[inline(always)]
pub(super) fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; NUM_LANES];
    let (blocks, tail) = row.as_chunks::<NUM_LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane += term(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane += term(x);
    }
    add_lanes(lanes)
}

/// Adds up `term(x, y)` over two rows of the same length.
#[inline(always)]
pub(super) fn sum_pairs(xs: &[f32], ys: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    sum_triples(xs, ys, xs, |x, y, _| term(x, y))
}

/// Adds up `term(x, y, z)` over three rows of the same length.
#[inline(always)]
pub(super) fn sum_triples(xs: &[f32], ys: &[f32], zs: &[f32], term: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; NUM_LANES];
    let (x_blocks, x_tail) = xs.as_chunks::<NUM_LANES>();
    let (y_blocks, y_tail) = ys.as_chunks::<NUM_LANES>();
    let (z_blocks, z_tail) = zs.as_chunks::<NUM_LANES>();
    for ((x, y), z) in x_blocks.iter().zip(y_blocks).zip(z_blocks) {
        for (((lane, &x), &y), &z) in lanes.iter_mut().zip(x).zip(y).zip(z) {
            *lane += term(x, y, z);
        }
    }
    for (((lane, &x), &y), &z) in lanes.iter_mut().zip(x_tail).zip(y_tail).zip(z_tail) {
        *lane += term(x, y, z);
    }
    add_lanes(lanes)
}

/// The largest element; NaN if there is one, so that a broken value is seen and not skipped.
#[inline(always)]
pub(super) fn max(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; NUM_LANES];
    let (blocks, tail) = row.as_chunks::<NUM_LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = larger(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = larger(*lane, x);
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

/// Replaces every element by `term(x)` and adds the results up.
#[inline(always)]
pub(super) fn map_and_sum(row: &mut [f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; NUM_LANES];
    let (blocks, tail) = row.as_chunks_mut::<NUM_LANES>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *x = term(*x);
            *lane += *x;
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *x = term(*x);
        *lane += *x;
    }
    add_lanes(lanes)
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    // A running NaN stays, since it is tested for; a new one is taken, since no comparison with it is true.
    if a >= b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn add_lanes(mut lanes: [f32; NUM_LANES]) -> f32 {
    let mut width = NUM_LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_on_small_integers_of_every_length() {
        for len in 0..70 {
            let row: Vec<f32> = (0..len).map(|i| (i % 7) as f32 - 2.0).collect();
            let want: f32 = row.iter().sum();
            assert_eq!(sum(&row, |x| x), want);
            assert_eq!(sum_pairs(&row, &row, |x, y| x * y), row.iter().map(|x| x * x).sum::<f32>());
            let mut mapped = row.clone();
            assert_eq!(map_and_sum(&mut mapped, |x| x + 1.0), want + len as f32);
            assert!(mapped.iter().zip(&row).all(|(a, b)| *a == b + 1.0));
        }
    }

    #[test]
    fn max_finds_the_largest_at_every_place_and_keeps_nan() {
        for len in 1..40 {
            for place in 0..len {
                let mut row = vec![-3.0; len];
                row[place] = 2.0;
                assert_eq!(max(&row), 2.0);
                row[place] = f32::NAN;
                assert!(max(&row).is_nan(), "NaN at {place} of {len}");
            }
        }
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }
}
