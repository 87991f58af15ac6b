//! The forward of a unit, and the recomputation of what it did not keep.

use super::places::{Arenas, Share};
use super::{Unit, UnitForward, UnitRecompute, conversion, write_both};
use crate::element::Element;
use crate::layer::{ForwardArgs, LossSum, MicroBatchShape, RecomputeArgs, Tokens};
use crate::layout;

impl Unit {
    /// Runs the layers in order; returns the loss if the last one computes it.
    ///
    /// # Panics
    /// If a buffer is shorter than [`Unit::sizes`] says or of another type, as do the other passes.
    pub fn forward(&self, shape: MicroBatchShape, args: UnitForward<'_>) -> Option<LossSum> {
        with_element!(self.forward_as(shape, args))
    }

    fn forward_as<E: Element>(&self, shape: MicroBatchShape, args: UnitForward<'_>) -> Option<LossSum> {
        let UnitForward { tokens, parameters, input, output, saved, recomputed, workspace } = args;
        let (parameters, input) = (&*parameters.read_as::<E>(), input.read_as::<E>());
        write_both(output, saved, |output, kept: &mut [E]| {
            write_both(recomputed, workspace, |recomputed, workspace| {
                let shares = self.shares(shape);
                let num_inputs = shares.first().map_or(0, |first| first.sizes.input);
                kept[..num_inputs].copy_from_slice(&input[..num_inputs]);
                let mut arenas = Arenas { kept, recomputed, output };
                let mut run = Forward { shape, tokens, parameters, workspace };
                shares.iter().fold(None, |_, share| run.layer(share, &mut arenas))
            })
        })
    }

    /// Recomputes what the layers of the *last* segment saved, for the backward that follows. Without segments it does
    /// nothing.
    ///
    /// The backward recomputes earlier segments itself, each when it gets there, since all share one buffer.
    pub fn recompute(&self, shape: MicroBatchShape, args: UnitRecompute<'_>) {
        with_element!(self.recompute_as(shape, args))
    }

    fn recompute_as<E: Element>(&self, shape: MicroBatchShape, args: UnitRecompute<'_>) {
        let UnitRecompute { tokens, parameters, saved, recomputed, workspace } = args;
        let Some(segment) = self.segments.last() else { return };
        let parameters = &*parameters.read_as::<E>();
        write_both(saved, recomputed, |kept, recomputed| {
            workspace.write(|workspace| {
                let mut arenas = Arenas { kept, recomputed, output: &mut [] };
                let mut run = Forward { shape, tokens, parameters, workspace };
                run.recompute_segment(&self.shares(shape)[segment.clone()], &mut arenas);
            });
        });
    }
}

/// What forwards and recomputations of a unit's layers have in common.
pub(super) struct Forward<'a, E> {
    pub(super) shape: MicroBatchShape,
    pub(super) tokens: Tokens<'a>,
    pub(super) parameters: &'a [E],
    pub(super) workspace: &'a mut [f32],
}

impl<E: Element> Forward<'_, E> {
    /// Writes what the layers of a segment saved into the buffer for recomputation. The output of the last one, which is the next layer's
    /// kept input, is not computed.
    pub(super) fn recompute_segment(&mut self, shares: &[Share<'_>], arenas: &mut Arenas<'_, E>) {
        let (last, others) = shares.split_last().expect("a segment has at least one layer");
        for share in others {
            self.layer(share, arenas);
        }
        let [input, saved] = arenas.lend([&last.input, &last.saved]);
        let [parameter_copy, input_copy, saved_copy, _, workspace] =
            layout::split_mut(self.workspace, last.forward_workspace_lens());
        last.layer.recompute(
            self.shape,
            RecomputeArgs {
                tokens: self.tokens,
                parameters: conversion::widened(&self.parameters[last.parameters.clone()], parameter_copy),
                input: conversion::widened(input, input_copy),
                saved: conversion::unwritten(saved, saved_copy),
                workspace,
            },
        );
        conversion::narrow_saved(saved_copy, last.sizes, saved);
    }

    fn layer(&mut self, share: &Share<'_>, arenas: &mut Arenas<'_, E>) -> Option<LossSum> {
        let [input, saved, output] = arenas.lend([&share.input, &share.saved, &share.output]);
        let [parameter_copy, input_copy, saved_copy, output_copy, workspace] =
            layout::split_mut(self.workspace, share.forward_workspace_lens());
        let loss = share.layer.forward(
            self.shape,
            ForwardArgs {
                tokens: self.tokens,
                parameters: conversion::widened(&self.parameters[share.parameters.clone()], parameter_copy),
                input: conversion::widened(input, input_copy),
                output: conversion::unwritten(output, output_copy),
                saved: conversion::unwritten(saved, saved_copy),
                workspace,
            },
        );
        conversion::narrow_saved(saved_copy, share.sizes, saved);
        conversion::narrow(output_copy, output);
        loss
    }
}
