//! The two halves of a unit's backward, for schedules that run them apart.

use super::places::Arenas;
use super::{Unit, UnitBackwardInput, UnitBackwardWeight};
use crate::element::ElementType;
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape};
use crate::queue::Queue;

impl Unit {
    /// The input gradient.
    ///
    /// # Panics
    /// If the unit [has no halves](Unit::has_halves).
    pub fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        self.assert_has_halves();
        let UnitBackwardInput { tokens, parameters, gradient, saved, weight_inputs, workspace, loss_seed } =
            args;
        let (mut gradient, mut workspace) = (gradient.view_mut(), workspace.view_mut());
        let mut weight_inputs = weight_inputs.view_mut();
        let (recomputed, rest) = workspace.reborrow().split_at(0);
        let (mut workspace, mut arenas) = (rest, Arenas { kept: saved.view_mut(), recomputed, output: None });
        for share in self.shares(shape).iter().rev() {
            let sizes = share.sizes;
            let [input, mut saved, exact] = arenas.lend([&share.input, &share.saved, &share.exact]);
            let [mut weight_inputs, exact_weight_inputs] =
                share.split_weight_inputs(weight_inputs.reborrow());
            let (types, mut pieces) = (share.types, share.backward_workspace(workspace.reborrow()));
            let (stored, copy) = (saved.reborrow(), pieces.saved.reborrow());
            let (stored_inputs, inputs_copy) = (weight_inputs.reborrow(), pieces.weight_inputs.reborrow());
            share.layer.backward_input(
                queue,
                shape,
                BackwardInputArgs {
                    tokens,
                    parameters: share.parameters_for_backward(queue, parameters, pieces.parameters),
                    input: types.widened(queue, input.into_view(), pieces.input),
                    saved: types.widened_mut(queue, stored, copy),
                    exact: exact.cast(ElementType::F32),
                    gradient: gradient.reborrow().range(0..sizes.input.max(sizes.output)),
                    weight_inputs: types.unwritten(stored_inputs, inputs_copy),
                    exact_weight_inputs,
                    workspace: pieces.scratch,
                    exact_workspace: pieces.exact_scratch,
                    loss_seed,
                },
            );
            share.round_gradient(queue, gradient.reborrow());
            types.narrow(queue, pieces.saved.view(), saved);
            types.narrow(queue, pieces.weight_inputs.view(), weight_inputs);
        }
    }

    /// The weight gradient of every layer; bit-identical to the full backward's.
    ///
    /// # Panics
    /// As [`Unit::backward_input`].
    pub fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        self.assert_has_halves();
        let UnitBackwardWeight { tokens, saved, weight_inputs, parameter_gradients, workspace } = args;
        let (kept, weight_inputs) = (saved.view(), weight_inputs.view());
        let (mut sums, mut workspace) = (parameter_gradients, workspace.view_mut());
        self.clear_between_parameters(queue, sums.reborrow());
        for share in self.shares(shape).iter().rev() {
            let Some(parameter_gradients) = share.gradients(sums.reborrow()) else { continue };
            let (types, pieces) = (share.types, share.backward_workspace(workspace.reborrow()));
            let (input, saved) = (share.input.read(kept), share.saved.read(kept));
            let exact = share.exact.read(kept).cast(ElementType::F32);
            let exact_inputs = weight_inputs.range(share.exact_weight_inputs.clone());
            let weight_inputs = weight_inputs.range(share.weight_inputs.clone());
            share.layer.backward_weight(
                queue,
                shape,
                BackwardWeightArgs {
                    tokens,
                    input: types.widened(queue, input, pieces.input),
                    saved: types.widened(queue, saved, pieces.saved),
                    exact,
                    weight_inputs: types.widened(queue, weight_inputs, pieces.weight_inputs),
                    exact_weight_inputs: exact_inputs.cast(ElementType::F32),
                    parameter_gradients,
                },
            );
        }
    }

    fn assert_has_halves(&self) {
        assert!(self.has_halves(), "a unit that recomputes runs its backward at once, not in halves");
    }
}
