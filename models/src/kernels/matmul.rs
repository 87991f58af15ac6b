//! Matrix products: the one door to the `gemm` crate.
//!
//! `gemm` shares a product out by tiles of the result and cuts the inner dimension by sizes alone, so an element is
//! the same whatever the number of threads; the tests of this file hold it to that.
#![allow(unsafe_code, reason = "gemm takes pointers and strides")]

use gemm::Parallelism;

use super::matrix::{Matrix, MatrixMut};

/// What happens to what the result held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It is overwritten.
    Assign,
    /// The product is added to it.
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
pub fn matmul(threads: Threads, out: MatrixMut<'_>, store: Store, a: Matrix<'_>, b: Matrix<'_>) {
    let (m, n, k) = (out.num_rows, out.num_columns, a.num_columns);
    assert!(
        a.num_rows == m && b.num_columns == n && b.num_rows == k,
        "[{m}, {n}] is not [{}, {k}] x [{}, {}]",
        a.num_rows,
        b.num_rows,
        b.num_columns
    );
    // SAFETY: each view lies inside a borrow of its own, and `out`'s is unique; a stride fits isize because the
    // elements that it spans do.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.start,
            1,
            out.row_stride as isize,
            store == Store::Add,
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
