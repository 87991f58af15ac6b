//! How a layer, which computes in one type, works on what its unit stores in another.
//!
//! What the layer reads is widened into copies in the workspace; what it writes goes to copies too and is
//! narrowed from there. So every value is rounded when it is passed on or kept, and at no other time: results do not
//! depend on where units or stages are cut, and a recomputation reads the bits that the forward read. Where a device computes in the type
//! that is stored, the copies have no elements, and layers work on the stored elements themselves.
//!
//! Statistics of norms and softmaxes, logits and gradients of parameters stay f32 in every type (the `exact` sizes of
//! [`LayerSizes`]). Layers work on them where they are kept.

use crate::element::ElementType;
use crate::layer::LayerSizes;
use crate::layout;
use crate::memory::{View, ViewMut};
use crate::queue::Queue;

/// What a unit stores, and what its layers compute in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitTypes {
    pub(super) stored: ElementType,
    /// The stored type, or f32.
    pub(super) computed: ElementType,
}

/// The pieces of the workspace of a forward.
pub(super) struct ForwardWorkspace<'a> {
    pub(super) parameters: ViewMut<'a>,
    pub(super) input: ViewMut<'a>,
    pub(super) saved: ViewMut<'a>,
    pub(super) output: ViewMut<'a>,
    pub(super) scratch: ViewMut<'a>,
    pub(super) exact_scratch: ViewMut<'a>,
}

/// The pieces of the workspace of a backward.
pub(super) struct BackwardWorkspace<'a> {
    pub(super) parameters: ViewMut<'a>,
    pub(super) input: ViewMut<'a>,
    pub(super) saved: ViewMut<'a>,
    pub(super) weight_inputs: ViewMut<'a>,
    pub(super) exact_weight_inputs: ViewMut<'a>,
    pub(super) scratch: ViewMut<'a>,
    pub(super) exact_scratch: ViewMut<'a>,
}

impl UnitTypes {
    /// `f32` elements of the pieces of a forward's workspace: copies of parameters, input, saved values and output, and the
    /// layer's own.
    pub(super) fn forward_lens(self, num_parameters: usize, sizes: LayerSizes) -> [usize; 6] {
        let LayerSizes { input, saved, output, forward_workspace, exact_forward_workspace, .. } = sizes;
        let [parameters, input, saved, output] =
            [num_parameters, input, saved, output].map(|len| self.copy_len(len));
        let scratch = self.computed.f32s_for(forward_workspace);
        [parameters, input, saved, output, scratch, exact_forward_workspace]
    }

    /// `f32` elements of the pieces of a backward's workspace: copies of parameters, input and saved values, the
    /// weight-gradient inputs of a full backward or their copies, and the layer's own.
    pub(super) fn backward_lens(self, num_parameters: usize, sizes: LayerSizes) -> [usize; 7] {
        let LayerSizes { input, saved, weight_inputs, exact_weight_inputs, .. } = sizes;
        let [parameters, input, saved] = [num_parameters, input, saved].map(|len| self.copy_len(len));
        let [weight_inputs, scratch] =
            [weight_inputs, sizes.backward_workspace].map(|len| self.computed.f32s_for(len));
        let exact_scratch = sizes.exact_backward_workspace;
        [parameters, input, saved, weight_inputs, exact_weight_inputs, scratch, exact_scratch]
    }

    /// The pieces of a forward's workspace.
    pub(super) fn split_forward<'a>(
        self,
        workspace: ViewMut<'a>,
        num_parameters: usize,
        sizes: LayerSizes,
    ) -> ForwardWorkspace<'a> {
        let [parameters, input, saved, output, scratch, exact_scratch] =
            layout::split_mut(workspace, self.forward_lens(num_parameters, sizes));
        let scratch = scratch.cast(self.computed).range(0..sizes.forward_workspace);
        ForwardWorkspace { parameters, input, saved, output, scratch, exact_scratch }
    }

    /// The pieces of a backward's workspace.
    pub(super) fn split_backward<'a>(
        self,
        workspace: ViewMut<'a>,
        num_parameters: usize,
        sizes: LayerSizes,
    ) -> BackwardWorkspace<'a> {
        let [parameters, input, saved, weight_inputs, exact_weight_inputs, scratch, exact_scratch] =
            layout::split_mut(workspace, self.backward_lens(num_parameters, sizes));
        let weight_inputs = weight_inputs.cast(self.computed).range(0..sizes.weight_inputs);
        let scratch = scratch.cast(self.computed).range(0..sizes.backward_workspace);
        BackwardWorkspace {
            parameters,
            input,
            saved,
            weight_inputs,
            exact_weight_inputs,
            scratch,
            exact_scratch,
        }
    }

    /// Elements of the copy of `len` stored ones.
    fn copy_len(self, len: usize) -> usize {
        if self.needs_copies() { len } else { 0 }
    }

    pub(super) fn needs_copies(self) -> bool {
        self.stored != self.computed
    }

    /// Stored elements as layers compute with them, for reading.
    pub(super) fn widened<'a>(self, queue: &dyn Queue, stored: View<'a>, copy: ViewMut<'a>) -> View<'a> {
        if !self.needs_copies() {
            return stored;
        }
        let mut copy = copy.range(0..stored.len());
        queue.copy(stored, copy.reborrow());
        copy.into_view()
    }

    /// Stored elements as layers compute with them, to be read and overwritten; [`UnitTypes::narrow`] then stores them.
    pub(super) fn widened_mut<'a>(
        self,
        queue: &dyn Queue,
        stored: ViewMut<'a>,
        mut copy: ViewMut<'a>,
    ) -> ViewMut<'a> {
        if self.needs_copies() {
            queue.copy(stored.view(), copy.reborrow());
        }
        self.unwritten(stored, copy)
    }

    /// Where the layer is to write: the stored elements, or the copy that [`UnitTypes::narrow`] then stores.
    pub(super) fn unwritten<'a>(self, stored: ViewMut<'a>, copy: ViewMut<'a>) -> ViewMut<'a> {
        if self.needs_copies() { copy } else { stored }
    }

    /// Stores what was written to a copy, if there is one.
    pub(super) fn narrow(self, queue: &dyn Queue, copy: View<'_>, stored: ViewMut<'_>) {
        if self.needs_copies() {
            queue.copy(copy, stored);
        }
    }

    /// Rounds elements that layers computed as if they were stored and read again.
    pub(super) fn round(self, queue: &dyn Queue, computed: ViewMut<'_>) {
        if self.needs_copies() {
            queue.round(computed, self.stored);
        }
    }

    /// The same for the gradient that runs through a unit, which is f32.
    pub(super) fn round_gradient(self, queue: &dyn Queue, gradient: ViewMut<'_>) {
        if self.stored != ElementType::F32 {
            queue.round(gradient, self.stored);
        }
    }
}
