//! Launches of SwiGLU.

use super::arguments::{Argument, Grid};
use super::operations::rows_of;
use super::queue::{CudaQueue, launch};
use crate::memory::{View, ViewMut};

impl CudaQueue {
    /// As [`Queue::swiglu`](crate::queue::Queue::swiglu).
    pub(super) fn launch_swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize) {
        let (of, grid) = (x.element_type(), Grid::blocks(rows_of(y.len(), width)));
        assert_eq!(x.len(), 2 * y.len(), "elements of gates and of what goes through them");
        let (x, y) = (self.read_of(of, x), self.write_of(of, &y));
        launch!(self, of, "swiglu", grid, x, y, width as u32);
    }

    /// As [`Queue::swiglu_backward`](crate::queue::Queue::swiglu_backward).
    pub(super) fn launch_swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize) {
        let (of, grid) = (x.element_type(), Grid::blocks(rows_of(dy.len(), width)));
        assert_eq!(x.len(), 2 * dy.len(), "elements of gates and of what goes through them");
        let (x, dy) = (self.write_of(of, &x), self.write_of(of, &dy));
        launch!(self, of, "swiglu_backward", grid, x, dy, width as u32);
    }
}
