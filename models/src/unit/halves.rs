//! The two halves of a unit's backward, for schedules that run them apart.

use super::places::Arenas;
use super::{Unit, UnitBackwardInput, UnitBackwardWeight, conversion, write_both};
use crate::element::Element;
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape};
use crate::layout;

impl Unit {
    /// The input gradient.
    ///
    /// # Panics
    /// If the unit has segments: their values would have to be kept until the weight gradient.
    pub fn backward_input(&self, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        self.assert_keeps_all();
        with_element!(self.backward_input_as(shape, args))
    }

    /// The weight gradient of every layer; bit-identical to the full backward's.
    ///
    /// # Panics
    /// As [`Unit::backward_input`].
    pub fn backward_weight(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        self.assert_keeps_all();
        with_element!(self.backward_weight_as(shape, args))
    }

    fn backward_input_as<E: Element>(&self, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        let UnitBackwardInput { tokens, parameters, gradient, saved, weight_inputs, workspace, loss_seed } =
            args;
        let parameters = self.backward_reads_weights().then(|| parameters.read_as::<E>());
        let parameters = parameters.as_deref().unwrap_or_default();
        write_both(gradient, saved, |gradient: &mut [f32], kept: &mut [E]| {
            write_both(weight_inputs, workspace, |weight_inputs: &mut [E], workspace| {
                let mut arenas = Arenas { kept, recomputed: &mut [], output: &mut [] };
                for share in self.shares(shape).iter().rev() {
                    let sizes = share.sizes;
                    let [input, saved] = arenas.lend([&share.input, &share.saved]);
                    let weight_inputs = &mut weight_inputs[share.weight_inputs.clone()];
                    let [parameter_copy, input_copy, saved_copy, workspace, weight_input_copy] =
                        layout::split_mut(workspace, share.backward_workspace_lens());
                    let parameters = share.parameters_for_backward(parameters);
                    share.layer.backward_input(
                        shape,
                        BackwardInputArgs {
                            tokens,
                            parameters: conversion::widened(parameters, parameter_copy),
                            input: conversion::widened(input, input_copy),
                            saved: conversion::widened_saved_mut(saved, sizes, saved_copy),
                            gradient: &mut gradient[..sizes.input.max(sizes.output)],
                            weight_inputs: conversion::unwritten(weight_inputs, weight_input_copy),
                            workspace,
                            loss_seed,
                        },
                    );
                    conversion::round::<E>(&mut gradient[..sizes.input]);
                    conversion::narrow_saved(saved_copy, sizes, saved);
                    conversion::narrow(weight_input_copy, weight_inputs);
                }
            })
        });
    }

    fn backward_weight_as<E: Element>(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        let UnitBackwardWeight { tokens, saved, weight_inputs, parameter_gradients, workspace } = args;
        let (kept, weight_inputs) = (&*saved.read_as::<E>(), &*weight_inputs.read_as::<E>());
        write_both(parameter_gradients, workspace, |parameter_gradients: &mut [f32], workspace| {
            for share in self.shares(shape).iter().rev() {
                let [_, input_copy, saved_copy, workspace, weight_input_copy] =
                    layout::split_mut(workspace, share.backward_workspace_lens());
                share.layer.backward_weight(
                    shape,
                    BackwardWeightArgs {
                        tokens,
                        input: conversion::widened(share.input.read(kept), input_copy),
                        saved: conversion::widened_saved(share.saved.read(kept), share.sizes, saved_copy),
                        weight_inputs: conversion::widened(
                            &weight_inputs[share.weight_inputs.clone()],
                            weight_input_copy,
                        ),
                        parameter_gradients: &mut parameter_gradients[share.parameters.clone()],
                        workspace,
                    },
                );
            }
        });
    }

    fn assert_keeps_all(&self) {
        assert!(self.segments.is_empty(), "a unit with segments runs its backward at once, not in halves");
    }
}
