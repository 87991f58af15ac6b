//! Looks through elements in a device's memory, piece by piece.

use pipezero_comm::memory::{Allocator, Category};
use pipezero_models::{ElementType, ModelError, Queue, View};

use crate::unusable_value::first_beyond;

/// Copies elements of a model's type to the host, in f32; those in 16 bits go through a buffer from `scratch`.
///
/// # Errors
/// When the device has failed, or has no memory for that buffer.
pub(super) fn download(
    queue: &dyn Queue,
    scratch: &Allocator,
    view: View<'_>,
    values: &mut [f32],
) -> Result<(), ModelError> {
    if view.element_type() == ElementType::F32 {
        return queue.download_floats(view, values);
    }
    let mut wide = scratch.zeros(view.len(), Category::Parameters)?;
    queue.copy(view, wide.view_mut());
    queue.download_floats(wide.view(), values)
}

/// The first of these elements that is not finite; at most `at_once` of them, at least 1, are copied at once.
///
/// # Errors
/// As [`download`].
pub(super) fn first_not_finite(
    queue: &dyn Queue,
    scratch: &Allocator,
    view: View<'_>,
    at_once: usize,
) -> Result<Option<(usize, f32)>, ModelError> {
    let mut values = vec![0.0; at_once.min(view.len())];
    for start in (0..view.len()).step_by(at_once) {
        let piece = start..view.len().min(start + at_once);
        let values = &mut values[..piece.len()];
        download(queue, scratch, view.range(piece), values)?;
        if let Some(at) = first_beyond(values, f32::INFINITY) {
            return Ok(Some((start + at, values[at])));
        }
    }
    Ok(None)
}
