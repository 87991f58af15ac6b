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

use crate::element::{Element, ElementType};
use crate::kernels::convert;
use crate::layer::LayerSizes;

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
pub(super) fn widened<'a, E: Element>(stored: &'a [E], copy: &'a mut [f32]) -> &'a [f32] {
    E::as_f32(stored).unwrap_or_else(|| {
        let copy = &mut copy[..stored.len()];
        convert::convert(stored, copy);
        copy
    })
}

/// What a layer saved, as f32, for reading.
pub(super) fn widened_saved<'a, E: Element>(
    stored: &'a [E],
    sizes: LayerSizes,
    copy: &'a mut [f32],
) -> &'a [f32] {
    E::as_f32(stored).unwrap_or_else(|| {
        widen_saved(stored, sizes, copy);
        copy
    })
}

/// What a layer saved, as f32, to be read and overwritten.
pub(super) fn widened_saved_mut<'a, E: Element>(
    stored: &'a mut [E],
    sizes: LayerSizes,
    copy: &'a mut [f32],
) -> &'a mut [f32] {
    if E::TYPE != ElementType::F32 {
        widen_saved(stored, sizes, copy);
    }
    unwritten(stored, copy)
}

fn widen_saved<E: Element>(stored: &[E], sizes: LayerSizes, copy: &mut [f32]) {
    let (rounded, exact) = stored.split_at(num_rounded(sizes));
    let (copy_rounded, copy_exact) = copy.split_at_mut(rounded.len());
    convert::convert(rounded, copy_rounded);
    convert::unpack(exact, copy_exact);
}

/// Where the layer is to write: the stored elements, or the copy that [`narrow`] or [`narrow_saved`]
/// then stores.
pub(super) fn unwritten<'a, E: Element>(stored: &'a mut [E], copy: &'a mut [f32]) -> &'a mut [f32] {
    E::as_f32_mut(stored).unwrap_or(copy)
}

/// Stores what was written to a copy; in an f32 unit nothing was.
pub(super) fn narrow<E: Element>(copy: &[f32], stored: &mut [E]) {
    if E::TYPE != ElementType::F32 {
        convert::convert(copy, stored);
    }
}

/// As [`narrow`], for what a layer saved.
pub(super) fn narrow_saved<E: Element>(copy: &[f32], sizes: LayerSizes, stored: &mut [E]) {
    if E::TYPE != ElementType::F32 {
        let (rounded, exact) = stored.split_at_mut(num_rounded(sizes));
        let (copy_rounded, copy_exact) = copy.split_at(rounded.len());
        convert::convert(copy_rounded, rounded);
        convert::pack(copy_exact, exact);
    }
}

/// Rounds a gradient that one layer hands to the one before.
pub(super) fn round<E: Element>(gradient: &mut [f32]) {
    if E::TYPE != ElementType::F32 {
        convert::round::<E>(gradient);
    }
}

/// Rounds what a layer saved as if it were stored and read again.
pub(super) fn round_saved<E: Element>(saved: &mut [f32], sizes: LayerSizes) {
    round::<E>(&mut saved[..num_rounded(sizes)]);
}

/// Some of what a layer saved, as f32.
pub(super) fn read_saved<E: Element>(stored: &[E], sizes: LayerSizes, range: Range<usize>) -> Vec<f32> {
    let num_rounded = num_rounded(sizes);
    let (rounded, exact) = stored.split_at(num_rounded);
    let num_packed = E::TYPE.num_packed();
    let value = |index: usize| match index.checked_sub(num_rounded) {
        None => rounded[index].widen(),
        Some(index) => E::unpack(&exact[index * num_packed..]),
    };
    range.map(value).collect()
}
