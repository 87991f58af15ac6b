//! The full backward of a unit, layer by layer from the last.

use super::forward::Forward;
use super::places::{Arenas, Share};
use super::{Unit, UnitBackward, conversion, write_both};
use crate::element::Element;
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape, Tokens};
use crate::layout;

impl Unit {
    /// The full backward. Where there are segments, [`Unit::recompute`] has run for this micro-batch, and nothing else
    /// has used its buffer since.
    pub fn backward(&self, shape: MicroBatchShape, args: UnitBackward<'_>) {
        with_element!(self.backward_as(shape, args))
    }

    fn backward_as<E: Element>(&self, shape: MicroBatchShape, args: UnitBackward<'_>) {
        let UnitBackward {
            tokens,
            parameters,
            gradient,
            saved,
            recomputed,
            parameter_gradients,
            workspace,
            loss_seed,
        } = args;
        // What no layer reads need not be there: it may be resharded, and of any type.
        let parameters = self.backward_reads_weights().then(|| parameters.read_as::<E>());
        let parameters = parameters.as_deref().unwrap_or_default();
        write_both(saved, recomputed, |kept, recomputed| {
            write_both(gradient, parameter_gradients, |gradient, parameter_gradients| {
                workspace.write(|workspace| {
                    let shares = self.shares(shape);
                    let mut arenas = Arenas { kept, recomputed, output: &mut [] };
                    let mut recomputed_segment = self.segments.len().checked_sub(1);
                    for share in shares.iter().rev() {
                        if let Some(segment) = share.segment
                            && recomputed_segment != Some(segment)
                        {
                            let mut run = Forward { shape, tokens, parameters, workspace };
                            run.recompute_segment(&shares[self.segments[segment].clone()], &mut arenas);
                            recomputed_segment = Some(segment);
                        }
                        let mut run = Backward { shape, tokens, parameters, gradient, workspace, loss_seed };
                        run.layer(share, &mut arenas, &mut parameter_gradients[share.parameters.clone()]);
                    }
                });
            });
        });
    }
}

/// What full backwards of a unit's layers have in common.
struct Backward<'a, E> {
    shape: MicroBatchShape,
    tokens: Tokens<'a>,
    parameters: &'a [E],
    gradient: &'a mut [f32],
    workspace: &'a mut [f32],
    loss_seed: f32,
}

impl<E: Element> Backward<'_, E> {
    /// The input gradient and then the weight gradient, which reads what it would read if the two were apart.
    fn layer(&mut self, share: &Share<'_>, arenas: &mut Arenas<'_, E>, parameter_gradients: &mut [f32]) {
        let (sizes, tokens) = (share.sizes, self.tokens);
        let [input, saved] = arenas.lend([&share.input, &share.saved]);
        let [parameter_copy, input_copy, saved_copy, workspace, weight_inputs] =
            layout::split_mut(self.workspace, share.backward_workspace_lens());
        let input = conversion::widened(input, input_copy);
        let saved = conversion::widened_saved_mut(saved, sizes, saved_copy);
        share.layer.backward_input(
            self.shape,
            BackwardInputArgs {
                tokens,
                parameters: conversion::widened(
                    share.parameters_for_backward(self.parameters),
                    parameter_copy,
                ),
                input,
                saved,
                gradient: &mut self.gradient[..sizes.input.max(sizes.output)],
                weight_inputs,
                workspace,
                loss_seed: self.loss_seed,
            },
        );
        conversion::round::<E>(&mut self.gradient[..sizes.input]);
        conversion::round_saved::<E>(saved, sizes);
        conversion::round::<E>(weight_inputs);
        share.layer.backward_weight(
            self.shape,
            BackwardWeightArgs { tokens, input, saved, weight_inputs, parameter_gradients, workspace },
        );
    }
}
