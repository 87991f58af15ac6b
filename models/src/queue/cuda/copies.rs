//! Copies, conversions and clears within the memory of a device.

use super::arguments::{Argument, Grid};
use super::queue::{CudaQueue, launch};
use super::transfers;
use crate::element::ElementType;
use crate::memory::{View, ViewMut};

// The driver's calls, by which messages and kernel times name them.
const COPY: &str = "cuMemcpyDtoDAsync";
const CLEAR: &str = "cuMemsetD8Async";

impl CudaQueue {
    /// As [`Queue::copy`](crate::queue::Queue::copy).
    pub(super) fn copy_elements(&self, from: View<'_>, to: &ViewMut<'_>) {
        assert_eq!(from.len(), to.len(), "elements of a copy");
        let (element, kernel) = match (from.element_type(), to.element_type()) {
            (from_type, to_type) if from_type == to_type => return self.copy_bytes(from, to),
            (half, ElementType::F32) => (half, "to_f32"),
            (ElementType::F32, half) => (half, "from_f32"),
            (ElementType::Bf16, ElementType::F16) => (ElementType::F16, "bf16_to_f16"),
            (ElementType::F16, ElementType::Bf16) => (ElementType::Bf16, "f16_to_bf16"),
            (from, to) => panic!("no kernel converts {from:?} to {to:?}"),
        };
        let grid = Grid::packs(from.len(), element);
        launch!(self, element, kernel, grid, self.address(from), self.address(to.view()), from.len() as u64);
    }

    /// Copies elements of one type.
    fn copy_bytes(&self, from: View<'_>, to: &ViewMut<'_>) {
        let num_bytes = from.len() * from.element_type().num_bytes();
        if num_bytes == 0 {
            return;
        }
        let size = || format!("{num_bytes} bytes");
        self.ask(COPY, |stream| {
            // SAFETY: both views have these bytes, and are apart.
            self.timed(stream, COPY, size, || unsafe {
                transfers::copy(stream, self.address(from), self.address(to.view()), num_bytes)
            })
        });
    }

    /// As [`Queue::clear`](crate::queue::Queue::clear).
    pub(super) fn clear_elements(&self, x: &ViewMut<'_>) {
        let num_bytes = x.len() * x.element_type().num_bytes();
        if num_bytes == 0 {
            return;
        }
        let size = || format!("{num_bytes} bytes");
        self.ask(CLEAR, |stream| {
            // SAFETY: the view has these bytes, and zero bits are zero in every type.
            self.timed(stream, CLEAR, size, || unsafe {
                transfers::clear(stream, self.address(x.view()), num_bytes)
            })
        });
    }
}
