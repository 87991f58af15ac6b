//! Views of matrices inside slices, with strides, so that a head's columns or a transpose need no copy.
#![allow(unsafe_code, reason = "columns of a row-major matrix interleave, which slices cannot express")]

use std::marker::PhantomData;
use std::slice;

/// Where a matrix is cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before this row.
    Row(usize),
    /// Before this column.
    Column(usize),
}

/// A matrix to read.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(super) start: *const f32,
    pub(super) num_rows: usize,
    pub(super) num_columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
    elements: PhantomData<&'a [f32]>,
}

// SAFETY: a `Matrix` stands for a shared borrow of `f32`s, which may be sent and shared.
unsafe impl Send for Matrix<'_> {}
// SAFETY: as above.
unsafe impl Sync for Matrix<'_> {}

impl<'a> Matrix<'a> {
    /// All of `elements`: `[num_rows, num_columns]`, row-major.
    ///
    /// # Panics
    /// If there are not that many elements.
    pub fn new(elements: &'a [f32], num_rows: usize, num_columns: usize) -> Self {
        let len = num_rows.checked_mul(num_columns);
        assert_eq!(Some(elements.len()), len, "a matrix of {num_rows} x {num_columns}");
        Self {
            start: elements.as_ptr(),
            num_rows,
            num_columns,
            row_stride: num_columns,
            column_stride: 1,
            elements: PhantomData,
        }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            num_rows: self.num_columns,
            num_columns: self.num_rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// The rows from `first` on, `num_rows` of them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn rows(self, first: usize, num_rows: usize) -> Self {
        let end = first.checked_add(num_rows);
        assert!(
            end.is_some_and(|end| end <= self.num_rows),
            "rows {first}..+{num_rows} of {}",
            self.num_rows
        );
        Self { start: self.start.wrapping_add(first * self.row_stride), num_rows, ..self }
    }

    /// The columns from `first` on, `num_columns` of them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn columns(self, first: usize, num_columns: usize) -> Self {
        self.transposed().rows(first, num_columns).transposed()
    }

    /// The part before the cut, and the rest.
    ///
    /// # Panics
    /// If the cut is beyond the end.
    pub fn split(self, cut: Cut) -> (Self, Self) {
        match cut {
            Cut::Row(row) => (self.rows(0, row), self.rows(row, self.num_rows - row)),
            Cut::Column(column) => (self.columns(0, column), self.columns(column, self.num_columns - column)),
        }
    }

    /// One row as a slice.
    ///
    /// # Panics
    /// If there is no such row, or the matrix is transposed.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.num_rows && self.column_stride == 1, "row {row} of {}", self.num_rows);
        // SAFETY: the row lies inside the slice that the view was made of, by the checks of `new`, `rows` and
        // `columns`, and nothing writes to it during 'a.
        unsafe { slice::from_raw_parts(self.start.add(row * self.row_stride), self.num_columns) }
    }
}

/// A matrix to write, with the elements of a row side by side.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    pub(super) start: *mut f32,
    pub(super) num_rows: usize,
    pub(super) num_columns: usize,
    pub(super) row_stride: usize,
    elements: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `MatrixMut` stands for a unique borrow of its own elements, and no two views share one.
unsafe impl Send for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// All of `elements`: `[num_rows, num_columns]`, row-major.
    ///
    /// # Panics
    /// If there are not that many elements.
    pub fn new(elements: &'a mut [f32], num_rows: usize, num_columns: usize) -> Self {
        let len = num_rows.checked_mul(num_columns);
        assert_eq!(Some(elements.len()), len, "a matrix of {num_rows} x {num_columns}");
        Self {
            start: elements.as_mut_ptr(),
            num_rows,
            num_columns,
            row_stride: num_columns,
            elements: PhantomData,
        }
    }

    /// The part before the cut, and the rest.
    ///
    /// # Panics
    /// If the cut is beyond the end.
    pub fn split(self, cut: Cut) -> (Self, Self) {
        let Self { start, num_rows, num_columns, row_stride, elements } = self;
        match cut {
            Cut::Row(row) => {
                assert!(row <= num_rows, "row {row} of {num_rows}");
                let tail = start.wrapping_add(row * row_stride);
                (
                    Self { start, num_rows: row, num_columns, row_stride, elements },
                    Self { start: tail, num_rows: num_rows - row, num_columns, row_stride, elements },
                )
            }
            Cut::Column(column) => {
                assert!(column <= num_columns, "column {column} of {num_columns}");
                let tail = start.wrapping_add(column);
                (
                    Self { start, num_rows, num_columns: column, row_stride, elements },
                    Self { start: tail, num_rows, num_columns: num_columns - column, row_stride, elements },
                )
            }
        }
    }

    /// The rows from `first` on, `num_rows` of them, borrowed from this view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn rows_mut(&mut self, first: usize, num_rows: usize) -> MatrixMut<'_> {
        let end = first.checked_add(num_rows);
        assert!(
            end.is_some_and(|end| end <= self.num_rows),
            "rows {first}..+{num_rows} of {}",
            self.num_rows
        );
        MatrixMut { start: self.start.wrapping_add(first * self.row_stride), num_rows, ..*self }
    }

    /// The columns from `first` on, `num_columns` of them, borrowed from this view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn columns_mut(&mut self, first: usize, num_columns: usize) -> MatrixMut<'_> {
        let end = first.checked_add(num_columns);
        assert!(
            end.is_some_and(|end| end <= self.num_columns),
            "columns {first}..+{num_columns} of {}",
            self.num_columns
        );
        MatrixMut { start: self.start.wrapping_add(first), num_columns, ..*self }
    }

    /// The same elements to read.
    pub fn as_matrix(&self) -> Matrix<'_> {
        Matrix {
            start: self.start,
            num_rows: self.num_rows,
            num_columns: self.num_columns,
            row_stride: self.row_stride,
            column_stride: 1,
            elements: PhantomData,
        }
    }

    /// One row as a slice.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.num_rows, "row {row} of {}", self.num_rows);
        // SAFETY: the row lies inside the slice that the view was made of, and its elements belong to this view
        // alone: views are only ever divided, and `self` is borrowed for as long as the row is.
        unsafe { slice::from_raw_parts_mut(self.start.add(row * self.row_stride), self.num_columns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element (i, j) is 10 i + j.
    fn elements() -> Vec<f32> {
        (0..12).map(|e| (10 * (e / 4) + e % 4) as f32).collect()
    }

    #[test]
    fn views_pick_the_right_elements() {
        let elements = elements();
        let matrix = Matrix::new(&elements, 3, 4);
        assert_eq!(matrix.rows(1, 2).columns(2, 2).row(1), [22.0, 23.0]);
        assert_eq!(matrix.transposed().rows(1, 3).transposed().row(2), [21.0, 22.0, 23.0]);
    }

    #[test]
    fn parts_cover_the_matrix_and_do_not_overlap() {
        let mut all = vec![0.0; 12];
        let (left, mut right) = MatrixMut::new(&mut all, 3, 4).split(Cut::Column(1));
        let (mut top, mut bottom) = left.split(Cut::Row(2));
        right.row_mut(2).fill(1.0);
        right.rows_mut(0, 2).row_mut(1).fill(2.0);
        top.row_mut(0).fill(3.0);
        bottom.row_mut(0).fill(4.0);
        assert_eq!(right.as_matrix().row(1), [2.0; 3]);
        right.columns_mut(2, 1).row_mut(0).fill(5.0);
        assert_eq!(all, [3.0, 0.0, 0.0, 5.0, 0.0, 2.0, 2.0, 2.0, 4.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    #[should_panic(expected = "rows 2..+2 of 3")]
    fn rows_beyond_the_end_are_refused() {
        Matrix::new(&elements(), 3, 4).rows(2, 2);
    }

    #[test]
    #[should_panic(expected = "a matrix of 3 x 5")]
    fn a_wrong_length_is_refused() {
        Matrix::new(&elements(), 3, 5);
    }
}
