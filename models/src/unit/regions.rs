//! What a unit's last layer saved: a head's logits, for generation.

use std::ops::Range;

use super::{Unit, conversion};
use crate::buffer::Buffer;
use crate::element::Element;
use crate::layer::MicroBatchShape;

impl Unit {
    /// Some of what the last layer saved in the forward, in f32. A head's logits `[N, V]` come first in it.
    ///
    /// # Panics
    /// If the last layer is in a segment, so that nothing of it is kept, or saves less.
    pub fn last_saved(&self, shape: MicroBatchShape, saved: &Buffer, range: Range<usize>) -> Vec<f32> {
        with_element!(self.last_saved_as(shape, saved, range))
    }

    fn last_saved_as<E: Element>(
        &self,
        shape: MicroBatchShape,
        saved: &Buffer,
        range: Range<usize>,
    ) -> Vec<f32> {
        let last = self.shares(shape).pop().expect("a unit has at least one layer");
        conversion::read_saved(last.saved.read(&saved.read_as::<E>()), last.sizes, range)
    }
}
