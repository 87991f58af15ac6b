//! The two halves of a unit's backward, for schedules that run them apart.

use super::places::Arenas;
use super::{Unit, UnitBackwardInput, UnitBackwardWeight, conversion};
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape};
use crate::layout;
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
            let mut weight_inputs = weight_inputs.reborrow().range(share.weight_inputs.clone());
            let [parameter_copy, input_copy, mut saved_copy, workspace, mut weight_input_copy] =
                layout::split_mut(workspace.reborrow(), share.backward_workspace_lens());
            let parameters = share.parameters_for_backward(parameters.view());
            let (stored, copy) = (saved.reborrow(), saved_copy.reborrow());
            let (stored_inputs, inputs_copy) = (weight_inputs.reborrow(), weight_input_copy.reborrow());
            share.layer.backward_input(
                queue,
                shape,
                BackwardInputArgs {
                    tokens,
                    parameters: conversion::widened(queue, parameters, parameter_copy),
                    input: conversion::widened(queue, input.into_view(), input_copy),
                    saved: conversion::widened_mut(queue, stored, copy),
                    exact: exact.as_f32(),
                    gradient: gradient.reborrow().range(0..sizes.input.max(sizes.output)),
                    weight_inputs: conversion::unwritten(queue, stored_inputs, inputs_copy),
                    workspace,
                    loss_seed,
                },
            );
            share.round_gradient(queue, gradient.reborrow());
            conversion::narrow(queue, saved_copy.view(), saved);
            conversion::narrow(queue, weight_input_copy.view(), weight_inputs);
        }
    }

    /// The weight gradient of every layer; bit-identical to the full backward's.
    ///
    /// # Panics
    /// As [`Unit::backward_input`].
    pub fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        self.assert_has_halves();
        let UnitBackwardWeight { tokens, saved, weight_inputs, parameter_gradients, mode, workspace } = args;
        let (kept, weight_inputs) = (saved.view(), weight_inputs.view());
        let (mut sums, mut workspace) = (parameter_gradients, workspace.view_mut());
        self.clear_between_parameters(queue, sums.reborrow(), mode);
        for share in self.shares(shape).iter().rev() {
            let [_, input_copy, saved_copy, workspace, weight_input_copy] =
                layout::split_mut(workspace.reborrow(), share.backward_workspace_lens());
            let (input, saved) = (share.input.read(kept), share.saved.read(kept));
            let exact = share.exact.read(kept).as_f32();
            let weight_inputs = weight_inputs.range(share.weight_inputs.clone());
            share.layer.backward_weight(
                queue,
                shape,
                BackwardWeightArgs {
                    tokens,
                    input: conversion::widened(queue, input, input_copy),
                    saved: conversion::widened(queue, saved, saved_copy),
                    exact,
                    weight_inputs: conversion::widened(queue, weight_inputs, weight_input_copy),
                    parameter_gradients: sums.reborrow().range(share.parameters.clone()),
                    mode,
                    workspace,
                },
            );
        }
    }

    fn assert_has_halves(&self) {
        assert!(self.has_halves(), "a unit that recomputes runs its backward at once, not in halves");
    }
}
