//! How a layer, which computes in f32, works on what its unit stores in another type.
//!
//! What the layer reads is widened into f32 copies in the workspace; what it writes goes to f32 copies too and is
//! narrowed from there. So every value is rounded when it is handed on or kept, and at no other time: results do not
//! depend on where units or stages are cut, and a recomputation reads the bits that the forward read. In an f32 unit the
//! copies have no elements, and layers work on the stored elements themselves.
//!
//! Of what is saved, statistics of norms and softmaxes stay f32 in every type
//! ([`LayerSizes::saved_exact`]): they go into exponentials and into every element of a row.

use std::ops::Range;

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

/// Elements of the unit's type that hold what a layer saves.
pub(super) fn num_stored(element: ElementType, sizes: LayerSizes) -> usize {
    num_rounded(sizes) + element.num_packed() * sizes.saved_exact
}

/// Elements of the f32 copy of `len` stored ones.
fn copy_len(element: ElementType, len: usize) -> usize {
    if element == ElementType::F32 { 0 } else { len }
}

/// Elements of what a layer saves that are stored in the unit's type; the exact ones follow.
fn num_rounded(sizes: LayerSizes) -> usize {
    sizes.saved - sizes.saved_exact
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

/// What a layer saved, as f32, for reading.
pub(super) fn widened_saved<'a>(
    queue: &dyn Queue,
    stored: View<'a>,
    sizes: LayerSizes,
    mut copy: ViewMut<'a>,
) -> View<'a> {
    if queue.computes_in(stored.element_type()) {
        return stored;
    }
    widen_saved(queue, stored, sizes, copy.reborrow());
    copy.into_view()
}

/// What a layer saved, as f32, to be read and overwritten.
pub(super) fn widened_saved_mut<'a>(
    queue: &dyn Queue,
    stored: ViewMut<'a>,
    sizes: LayerSizes,
    mut copy: ViewMut<'a>,
) -> ViewMut<'a> {
    if !queue.computes_in(stored.element_type()) {
        widen_saved(queue, stored.view(), sizes, copy.reborrow());
    }
    unwritten(queue, stored, copy)
}

fn widen_saved(queue: &dyn Queue, stored: View<'_>, sizes: LayerSizes, copy: ViewMut<'_>) {
    let num_rounded = num_rounded(sizes);
    let (copy_rounded, copy_exact) = copy.split_at(num_rounded);
    queue.copy(stored.range(0..num_rounded), copy_rounded);
    queue.unpack(stored.range(num_rounded..stored.len()), copy_exact);
}

/// Where the layer is to write: the stored elements, or the copy that [`narrow`] or [`narrow_saved`]
/// then stores.
pub(super) fn unwritten<'a>(queue: &dyn Queue, stored: ViewMut<'a>, copy: ViewMut<'a>) -> ViewMut<'a> {
    if queue.computes_in(stored.element_type()) { stored } else { copy }
}

/// Stores what was written to a copy, if there is one.
pub(super) fn narrow(queue: &dyn Queue, copy: View<'_>, stored: ViewMut<'_>) {
    if !queue.computes_in(stored.element_type()) {
        queue.copy(copy, stored);
    }
}

/// As [`narrow`], for what a layer saved.
pub(super) fn narrow_saved(queue: &dyn Queue, copy: View<'_>, sizes: LayerSizes, stored: ViewMut<'_>) {
    if !queue.computes_in(stored.element_type()) {
        let num_rounded = num_rounded(sizes);
        let (rounded, exact) = stored.split_at(num_rounded);
        queue.copy(copy.range(0..num_rounded), rounded);
        queue.pack(copy.range(num_rounded..copy.len()), exact);
    }
}

/// Rounds a gradient that one layer hands to the one before.
pub(super) fn round(queue: &dyn Queue, gradient: ViewMut<'_>, to: ElementType) {
    if to != ElementType::F32 {
        queue.round(gradient, to);
    }
}

/// Rounds what a layer saved as if it were stored and read again.
pub(super) fn round_saved(queue: &dyn Queue, saved: ViewMut<'_>, sizes: LayerSizes, to: ElementType) {
    round(queue, saved.range(0..num_rounded(sizes)), to);
}

/// Copies some of what a layer saved into as many elements of f32.
pub(super) fn copy_saved(
    queue: &dyn Queue,
    stored: View<'_>,
    sizes: LayerSizes,
    range: Range<usize>,
    to: ViewMut<'_>,
) {
    let num_rounded = num_rounded(sizes);
    let of_rounded = range.start.min(num_rounded)..range.end.min(num_rounded);
    let (rounded, exact) = to.split_at(of_rounded.len());
    queue.copy(stored.range(of_rounded), rounded);
    let num_packed = stored.element_type().num_packed();
    let place = |index: usize| num_rounded + num_packed * (index.max(num_rounded) - num_rounded);
    let packed = stored.range(place(range.start)..place(range.end));
    if num_packed == 1 { queue.copy(packed, exact) } else { queue.unpack(packed, exact) }
}
