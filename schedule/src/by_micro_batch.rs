//! Tables of stages, units or edges by micro-batch.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use crate::id::MicroBatch;

/// `[index of a stage, unit or edge, micro-batch]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByMicroBatch<T> {
    num_micro_batches: usize,
    values: Vec<T>,
}

impl<T: Clone> ByMicroBatch<T> {
    /// A table of `len` stages, units or edges, filled with one value.
    pub(crate) fn new(len: usize, num_micro_batches: u32, value: T) -> Self {
        let num_micro_batches = num_micro_batches as usize;
        Self { num_micro_batches, values: vec![value; len * num_micro_batches] }
    }
}

impl<T> Index<(usize, MicroBatch)> for ByMicroBatch<T> {
    type Output = T;

    fn index(&self, (index, micro_batch): (usize, MicroBatch)) -> &T {
        &self.values[index * self.num_micro_batches + micro_batch.index()]
    }
}

impl<T> IndexMut<(usize, MicroBatch)> for ByMicroBatch<T> {
    fn index_mut(&mut self, (index, micro_batch): (usize, MicroBatch)) -> &mut T {
        &mut self.values[index * self.num_micro_batches + micro_batch.index()]
    }
}
