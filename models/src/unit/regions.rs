//! What a unit's last layer saved: a head's logits, for generation.

use std::ops::Range;

use super::{Unit, conversion};
use crate::buffer::Buffer;
use crate::layer::MicroBatchShape;
use crate::memory::ViewMut;
use crate::queue::Queue;

impl Unit {
    /// Some of what the last layer saved in the forward, copied into as many elements of f32. A head's logits `[N, V]` come first
    /// in it.
    ///
    /// # Panics
    /// If the last layer is in a segment, so that nothing of it is kept, or saves less.
    pub fn copy_last_saved(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        saved: &Buffer,
        range: Range<usize>,
        to: ViewMut<'_>,
    ) {
        let last = self.shares(shape).pop().expect("a unit has at least one layer");
        conversion::copy_saved(queue, last.saved.read(saved.view()), last.sizes, range, to);
    }
}
