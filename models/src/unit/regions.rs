//! Where things lie in what a unit saves.

use std::ops::Range;

use super::Unit;
use crate::layer::MicroBatchShape;
use crate::layout;

impl Unit {
    /// What the last layer saves beside its input, as elements of the unit's saved values. A head's logits `[N, V]`
    /// come first in it.
    pub fn last_saved(&self, shape: MicroBatchShape) -> Range<usize> {
        let last = self.shares(shape).last().expect("a unit has at least one layer");
        last.saved.start + layout::aligned(last.sizes.input)..last.saved.end
    }
}
