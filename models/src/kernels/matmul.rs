//! Matrix products: the only file that calls `gemm`, of which `models` takes the crate for f32 alone. The crates for its other types take as
//! long to compile again, and are never called.
//!
//! `gemm` shares a product out by tiles of the result and cuts the inner dimension by sizes alone, so an element is
//! the same whatever the number of threads; the tests of this file check that.
#![allow(unsafe_code, reason = "gemm takes pointers and strides")]

use gemm_common::Parallelism;

use super::matrix::{Cut, Matrix, MatrixMut};

/// The most rows of a transposed `a`, or columns of a transposed `b`, that one call is given. `gemm` repacks those into a
/// buffer that it allocates for the call, 512 of the inner dimension at a time: 384 of them stay below 1 MiB, so that no
/// step allocates more, and in the cache.
const PACKED_MAX: usize = 384;

/// What happens to what a result held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// It is lost.
    Overwrite,
    /// What is computed is added to it.
    Add,
}

/// Which threads may work on a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// All of the current rayon pool.
    Pool,
    /// The caller alone, which is one of many doing the same.
    Caller,
}

/// `out = a b`, or `out += a b`.
///
/// * Shapes: `out: [m, n]`, `a: [m, k]`, `b: [k, n]`.
/// * Cost: 2 m n k floating-point operations.
///
/// # Panics
/// If the shapes do not fit.
pub fn matmul(threads: Threads, out: MatrixMut<'_>, mode: WriteMode, a: Matrix<'_>, b: Matrix<'_>) {
    let (m, n, k) = (out.num_rows, out.num_columns, a.num_columns);
    assert!(
        a.num_rows == m && b.num_columns == n && b.num_rows == k,
        "[{m}, {n}] is not [{}, {k}] x [{}, {}]",
        a.num_rows,
        b.num_rows,
        b.num_columns
    );
    let rows = if a.column_stride == 1 { m } else { part(m) };
    let columns = if b.column_stride == 1 { n } else { part(n) };
    let mut below = out;
    let mut first_row = 0;
    while first_row < m {
        let num_rows = rows.min(m - first_row);
        let (mut right, rest) = below.split(Cut::Row(num_rows));
        let mut first_column = 0;
        while first_column < n {
            let num_columns = columns.min(n - first_column);
            let (out, rest) = right.split(Cut::Column(num_columns));
            product(threads, out, mode, a.rows(first_row, num_rows), b.columns(first_column, num_columns));
            right = rest;
            first_column += num_columns;
        }
        below = rest;
        first_row += num_rows;
    }
}

/// The size of equal parts of at most [`PACKED_MAX`].
fn part(len: usize) -> usize {
    len.div_ceil(len.div_ceil(PACKED_MAX).max(1))
}

/// One call of `gemm`; the shapes fit.
fn product(threads: Threads, out: MatrixMut<'_>, mode: WriteMode, a: Matrix<'_>, b: Matrix<'_>) {
    let out_stride = out.row_stride as isize;
    // Its inner loop writes along columns, and those of the transposed product lie in memory as rows of the result.
    let (a, b, out_row, out_column) =
        if out_stride > 1 { (b.transposed(), a.transposed(), 1, out_stride) } else { (a, b, out_stride, 1) };
    let multiply = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: each view lies inside a borrow of its own, and `out`'s is unique; a stride fits isize because the
    // elements that it spans do. The shapes fit, by the check of `matmul`.
    unsafe {
        multiply(
            a.num_rows,
            b.num_columns,
            a.num_columns,
            out.start,
            out_column,
            out_row,
            mode == WriteMode::Add,
            a.start,
            a.column_stride as isize,
            a.row_stride as isize,
            b.start,
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism(threads),
        );
    }
}

fn parallelism(threads: Threads) -> Parallelism {
    match (threads, rayon::current_num_threads()) {
        (Threads::Caller, _) | (Threads::Pool, 1) => Parallelism::None,
        (Threads::Pool, num_threads) => Parallelism::Rayon(num_threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    /// One product of every kind that the layers use: `a b`, `a bᵀ`, `aᵀ b`.
    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Plain,
        SecondTransposed,
        FirstTransposed,
    }

    const KINDS: [Kind; 3] = [Kind::Plain, Kind::SecondTransposed, Kind::FirstTransposed];

    fn views<'a>(kind: Kind, [m, n, k]: [usize; 3], a: &'a [f32], b: &'a [f32]) -> [Matrix<'a>; 2] {
        match kind {
            Kind::Plain => [Matrix::new(a, m, k), Matrix::new(b, k, n)],
            Kind::SecondTransposed => [Matrix::new(a, m, k), Matrix::new(b, n, k).transposed()],
            Kind::FirstTransposed => [Matrix::new(a, k, m).transposed(), Matrix::new(b, k, n)],
        }
    }

    fn product(kind: Kind, shape: [usize; 3], a: &[f32], b: &[f32], mode: WriteMode) -> Vec<f32> {
        let [m, n, _] = shape;
        let mut out = random("out", m * n);
        let [a, b] = views(kind, shape, a, b);
        matmul(Threads::Pool, MatrixMut::new(&mut out, m, n), mode, a, b);
        out
    }

    fn reference(kind: Kind, [m, n, k]: [usize; 3], a: &[f32], b: &[f32], mode: WriteMode) -> Vec<f64> {
        let before = random("out", m * n);
        let at = |kind: Kind, i: usize, j: usize, l: usize| match kind {
            Kind::Plain => (a[i * k + l], b[l * n + j]),
            Kind::SecondTransposed => (a[i * k + l], b[j * k + l]),
            Kind::FirstTransposed => (a[l * m + i], b[l * n + j]),
        };
        let element = |e: usize| {
            let sum: f64 =
                (0..k).map(|l| at(kind, e / n, e % n, l)).map(|(a, b)| f64::from(a) * f64::from(b)).sum();
            if mode == WriteMode::Add { sum + f64::from(before[e]) } else { sum }
        };
        (0..m * n).map(element).collect()
    }

    #[test]
    fn every_small_shape_equals_the_definition() {
        let sizes = [1, 2, 3, 7, 8, 9, 16, 17, 33, 65];
        for [m, n, k] in
            sizes.iter().flat_map(|&m| sizes.map(|n| [m, n])).flat_map(|[m, n]| sizes.map(|k| [m, n, k]))
        {
            let (a, b) = (random("a", m * k), random("b", k * n));
            for (kind, mode) in
                KINDS.into_iter().flat_map(|kind| [(kind, WriteMode::Overwrite), (kind, WriteMode::Add)])
            {
                let got = product(kind, [m, n, k], &a, &b, mode);
                // At most 65 terms: a few times the f32 unit, 6e-8.
                let what = format!("{kind:?} {mode:?} {m} x {n} x {k}");
                assert_close(&what, &got, &reference(kind, [m, n, k], &a, &b, mode), 2e-6);
            }
        }
    }

    /// But for the sign of a zero: where `k` is 1 or 2, `gemm` adds the products to no zero of its own.
    #[test]
    fn an_assigned_product_equals_one_added_to_zeros() {
        for [m, n, k] in
            [[1, 1, 1], [1, 37, 9], [37, 1, 9], [5, 7, 1], [33, 65, 17], [97, 131, 1100], [770, 40, 3]]
        {
            let (mut a, b) = (random("a", m * k), random("b", k * n));
            a.iter_mut().step_by(3).for_each(|a| *a = 0.0);
            for (kind, a) in KINDS.into_iter().flat_map(|kind| [(kind, a.clone()), (kind, vec![0.0; m * k])])
            {
                let [a, b] = views(kind, [m, n, k], &a, &b);
                let [mut assigned, mut added] = [f32::NAN, 0.0].map(|before| vec![before; m * n]);
                matmul(Threads::Pool, MatrixMut::new(&mut assigned, m, n), WriteMode::Overwrite, a, b);
                matmul(Threads::Pool, MatrixMut::new(&mut added, m, n), WriteMode::Add, a, b);
                assigned.iter_mut().for_each(|element| *element += 0.0);
                assert_same_bits(&format!("{kind:?} {m} x {n} x {k}"), &assigned, &added);
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        // All beyond the size from which gemm uses threads, and no multiple of its tiles.
        for shape in [
            [97, 131, 203],
            [1030, 33, 65],
            [31, 1027, 70],
            [770, 1030, 40],
            [67, 65, 1500],
            [1, 3001, 301],
            [3001, 1, 301],
        ] {
            let [m, n, k] = shape;
            let (a, b) = (random("a", m * k), random("b", k * n));
            for (kind, mode) in
                KINDS.into_iter().flat_map(|kind| [(kind, WriteMode::Overwrite), (kind, WriteMode::Add)])
            {
                same_on_all_threads(&format!("{kind:?} {shape:?}"), || product(kind, shape, &a, &b, mode));
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_alignment() {
        for shape in [[97, 131, 203], [5, 7, 9], [1, 130, 77], [130, 1, 77]] {
            let [m, n, k] = shape;
            let (a, b) = (random("a", m * k), random("b", k * n));
            for kind in KINDS {
                let want = product(kind, shape, &a, &b, WriteMode::Overwrite);
                for shift in 1..16 {
                    let shifted = |values: &[f32]| [vec![0.0; shift], values.to_vec()].concat();
                    let (a, b, mut out) = (shifted(&a), shifted(&b), vec![0.0; shift + m * n]);
                    let [a, b] = views(kind, shape, &a[shift..], &b[shift..]);
                    matmul(
                        Threads::Pool,
                        MatrixMut::new(&mut out[shift..], m, n),
                        WriteMode::Overwrite,
                        a,
                        b,
                    );
                    assert_same_bits(&format!("{kind:?} {shape:?} shifted by {shift}"), &out[shift..], &want);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "[2, 3] is not [2, 4] x [5, 3]")]
    fn shapes_that_do_not_fit_are_refused() {
        let (a, b, mut out) = ([0.0; 8], [0.0; 15], [0.0; 6]);
        matmul(
            Threads::Caller,
            MatrixMut::new(&mut out, 2, 3),
            WriteMode::Overwrite,
            Matrix::new(&a, 2, 4),
            Matrix::new(&b, 5, 3),
        );
    }
}
