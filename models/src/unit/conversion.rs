//! How a layer, which computes in f32, works on what its unit stores in another type.
//!
//! What the layer reads is widened into f32 copies in the workspace; what it writes goes to f32 copies too and is
//! narrowed from there. So every value is rounded when it is handed on or kept, and at no other time: results do not
//! depend on where units or stages are cut, and a recomputation reads the bits that the forward read. In an f32 unit the
//! copies have no elements, and layers work on the stored elements themselves.
//!
//! Statistics of norms and softmaxes, and logits, stay f32 in every type ([`LayerSizes::exact`]): they go into exponentials
//! and into every element of a row. Layers work on them where they are kept.

use crate::element::ElementType;
use crate::layer::LayerSizes;
use crate::memory::{View, ViewMut};
use crate::queue::Queue;

/// Elements of the workspace of a forward: copies of parameters, input, saved values and output, and the layer's own
/// workspace.
pub(super) fn forward_workspace_lens(
    element: ElementType,
    num_parameters: usize,
    sizes: LayerSizes,
) -> [usize; 5] {
    let LayerSizes { input, saved, output, forward_workspace, .. } = sizes;
    let [parameters, input, saved, output] =
        [num_parameters, input, saved, output].map(|len| copy_len(element, len));
    [parameters, input, saved, output, forward_workspace]
}

/// Elements of the workspace of a backward: copies of parameters, input and saved values, and the layer's own workspace
/// and weight-gradient inputs.
pub(super) fn backward_workspace_lens(
    element: ElementType,
    num_parameters: usize,
    sizes: LayerSizes,
) -> [usize; 5] {
    let LayerSizes { input, saved, backward_workspace, weight_inputs, .. } = sizes;
    let [parameters, input, saved] = [num_parameters, input, saved].map(|len| copy_len(element, len));
    [parameters, input, saved, backward_workspace, weight_inputs]
}

/// Elements of the f32 copy of `len` stored ones.
fn copy_len(element: ElementType, len: usize) -> usize {
    if element == ElementType::F32 { 0 } else { len }
}

/// Stored elements as f32, for reading.
pub(super) fn widened<'a>(queue: &dyn Queue, stored: View<'a>, copy: ViewMut<'a>) -> View<'a> {
    if queue.computes_in(stored.element_type()) {
        return stored;
    }
    let mut copy = copy.range(0..stored.len());
    queue.copy(stored, copy.reborrow());
    copy.into_view()
}

/// Stored elements as f32, to be read and overwritten; [`narrow`] then stores them.
pub(super) fn widened_mut<'a>(queue: &dyn Queue, stored: ViewMut<'a>, mut copy: ViewMut<'a>) -> ViewMut<'a> {
    if !queue.computes_in(stored.element_type()) {
        queue.copy(stored.view(), copy.reborrow());
    }
    unwritten(queue, stored, copy)
}

/// Where the layer is to write: the stored elements, or the copy that [`narrow`] then stores.
pub(super) fn unwritten<'a>(queue: &dyn Queue, stored: ViewMut<'a>, copy: ViewMut<'a>) -> ViewMut<'a> {
    if queue.computes_in(stored.element_type()) { stored } else { copy }
}

/// Stores what was written to a copy, if there is one.
pub(super) fn narrow(queue: &dyn Queue, copy: View<'_>, stored: ViewMut<'_>) {
    if !queue.computes_in(stored.element_type()) {
        queue.copy(copy, stored);
    }
}

/// Rounds elements as if they were stored and read again.
pub(super) fn round(queue: &dyn Queue, elements: ViewMut<'_>, to: ElementType) {
    if to != ElementType::F32 {
        queue.round(elements, to);
    }
}
