//! Sharing rows out to the threads of the current rayon pool.
//!
//! A kernel that treats rows one by one says which rows belong together, of inputs and outputs alike; this file cuts
//! them into blocks and runs the blocks, each compiled for the machine's vector unit. Where blocks are cut cannot be
//! seen in the result, because a row's result depends on that row alone.

use std::ops::Range;

use super::simd;

/// Elements of a block's widest operand: enough that handing a block out costs nothing beside its work.
const BLOCK_ELEMENTS: usize = 1 << 14;

/// Something made of rows that can be cut between two of them.
pub(super) trait Rows: Sized + Send {
    /// Number of rows.
    fn num_rows(&self) -> usize;
    /// Elements of a row of the widest part.
    fn width(&self) -> usize;
    /// The rows before `row`, and the rest.
    fn split_at(self, row: usize) -> (Self, Self);
}

/// Rows to read: `[num_rows, width]`.
#[derive(Clone, Copy)]
pub(super) struct Read<'a, T = f32> {
    pub(super) elements: &'a [T],
    pub(super) width: usize,
}

/// Rows to write: `[num_rows, width]`.
pub(super) struct Write<'a, T = f32> {
    pub(super) elements: &'a mut [T],
    pub(super) width: usize,
}

/// `elements` as rows to read.
///
/// # Panics
/// If they are not whole rows.
pub(super) fn read<T>(elements: &[T], width: usize) -> Read<'_, T> {
    check_rows(elements.len(), width);
    Read { elements, width }
}

/// `elements` as rows to write.
///
/// # Panics
/// If they are not whole rows.
pub(super) fn write<T>(elements: &mut [T], width: usize) -> Write<'_, T> {
    check_rows(elements.len(), width);
    Write { elements, width }
}

/// # Panics
/// If so many elements are not whole rows of this width.
pub(super) fn check_rows(len: usize, width: usize) {
    assert!(width > 0 && len.is_multiple_of(width), "{len} elements are not rows of {width}");
}

/// How wide each of so many rows is that have `len` elements together.
///
/// # Panics
/// If they are not equally wide.
pub(super) fn width_of(len: usize, num_rows: usize) -> usize {
    assert!(num_rows > 0 && len.is_multiple_of(num_rows), "{len} elements are not {num_rows} rows");
    len / num_rows
}

impl<T: Sync> Rows for Read<'_, T> {
    fn num_rows(&self) -> usize {
        self.elements.len() / self.width
    }

    fn width(&self) -> usize {
        self.width
    }

    fn split_at(self, row: usize) -> (Self, Self) {
        let (head, tail) = self.elements.split_at(row * self.width);
        (read(head, self.width), read(tail, self.width))
    }
}

impl<T: Send> Rows for Write<'_, T> {
    fn num_rows(&self) -> usize {
        self.elements.len() / self.width
    }

    fn width(&self) -> usize {
        self.width
    }

    fn split_at(self, row: usize) -> (Self, Self) {
        let (head, tail) = self.elements.split_at_mut(row * self.width);
        (write(head, self.width), write(tail, self.width))
    }
}

/// The rows' own numbers, for what depends on a row's place.
impl Rows for Range<usize> {
    fn num_rows(&self) -> usize {
        self.len()
    }

    fn width(&self) -> usize {
        1
    }

    fn split_at(self, row: usize) -> (Self, Self) {
        let middle = self.start + row;
        (self.start..middle, middle..self.end)
    }
}

/// Operands that are cut at the same rows.
macro_rules! rows_of_a_tuple {
    ($($operand:ident),+) => {
        impl<$($operand: Rows),+> Rows for ($($operand,)+) {
            fn num_rows(&self) -> usize {
                #[expect(non_snake_case, reason = "the operand's type parameter names its place")]
                let ($($operand,)+) = self;
                let all = [$($operand.num_rows()),+];
                assert!(all.iter().all(|&num_rows| num_rows == all[0]), "operands have {all:?} rows");
                all[0]
            }

            fn width(&self) -> usize {
                #[expect(non_snake_case, reason = "the operand's type parameter names its place")]
                let ($($operand,)+) = self;
                0 $(.max($operand.width()))+
            }

            fn split_at(self, row: usize) -> (Self, Self) {
                #[expect(non_snake_case, reason = "the operand's type parameter names its place")]
                let ($($operand,)+) = self;
                $(
                    #[expect(non_snake_case, reason = "the operand's type parameter names its place")]
                    let $operand = $operand.split_at(row);
                )+
                (($($operand.0,)+), ($($operand.1,)+))
            }
        }
    };
}

rows_of_a_tuple!(A, B);
rows_of_a_tuple!(A, B, C);
rows_of_a_tuple!(A, B, C, D);
rows_of_a_tuple!(A, B, C, D, E);

/// Runs `body` on all rows, block by block, on the threads of the current pool.
///
/// `body` and what it calls must be `#[inline(always)]`, see [`simd::dispatch`].
#[inline(always)]
pub(super) fn for_blocks<R: Rows>(rows: R, body: impl Fn(R) + Sync) {
    let rows_per_block = (BLOCK_ELEMENTS / rows.width().max(1)).max(1);
    let run = |block: R| {
        simd::dispatch(
            #[inline(always)]
            || body(block),
        )
    };
    if rows.num_rows() <= rows_per_block || rayon::current_num_threads() == 1 {
        run(rows);
    } else {
        halve(rows, rows_per_block, &run);
    }
}

/// Runs `run` on blocks of at most `rows_per_block` rows by halving again and again.
fn halve<R: Rows>(rows: R, rows_per_block: usize, run: &(impl Fn(R) + Sync)) {
    let num_rows = rows.num_rows();
    if num_rows <= rows_per_block {
        return run(rows);
    }
    let (head, tail) = rows.split_at(num_rows / 2);
    rayon::join(|| halve(head, rows_per_block, run), || halve(tail, rows_per_block, run));
}

/// Runs both, at the same time where the current pool has several threads.
pub(super) fn join(first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    if rayon::current_num_threads() == 1 {
        first();
        second();
    } else {
        rayon::join(first, second);
    }
}
