//! Where things lie in what a unit saves.

use std::ops::Range;

use super::Unit;
use crate::layer::MicroBatchShape;

impl Unit {
    /// What the last layer saves beside its input, as elements of the unit's saved values. A head's logits `[N, V]`
    /// come first in it.
    ///
    /// # Panics
    /// If the last layer is in a segment, so that nothing of it is kept.
    pub fn last_saved(&self, shape: MicroBatchShape) -> Range<usize> {
        let last = self.shares(shape).pop().expect("a unit has at least one layer");
        last.kept().expect("the last layer keeps what it saves")
    }
}
