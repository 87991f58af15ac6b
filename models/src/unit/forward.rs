//! The forward of a unit, and the recomputation of what it did not keep.

use super::places::{Arenas, Share};
use super::{Unit, UnitForward, UnitRecompute, write_both};
use crate::layer::{ForwardArgs, LossSum, MicroBatchShape, RecomputeArgs, Tokens};

impl Unit {
    /// Runs the layers in order; returns the loss if the last one computes it.
    ///
    /// # Panics
    /// If a buffer is shorter than [`Unit::sizes`] says, as do the other passes.
    pub fn forward(&self, shape: MicroBatchShape, args: UnitForward<'_>) -> Option<LossSum> {
        let UnitForward { tokens, parameters, input, output, saved, recomputed, workspace } = args;
        let (parameters, input) = (&*parameters.read(), input.read());
        write_both(output, saved, |output, kept| {
            write_both(recomputed, workspace, |room, workspace| {
                let shares = self.shares(shape);
                let num_inputs = shares.first().map_or(0, |first| first.sizes.input);
                kept[..num_inputs].copy_from_slice(&input[..num_inputs]);
                let mut arenas = Arenas { kept, room, output };
                let mut run = Forward { shape, tokens, parameters, workspace };
                shares.iter().fold(None, |_, share| run.layer(share, &mut arenas))
            })
        })
    }

    /// Recomputes what the layers of the *last* segment saved, for the backward that follows. Without segments it does
    /// nothing.
    ///
    /// The backward recomputes earlier segments itself, each when it gets there, since all share one room.
    pub fn recompute(&self, shape: MicroBatchShape, args: UnitRecompute<'_>) {
        let UnitRecompute { tokens, parameters, saved, recomputed, workspace } = args;
        let Some(segment) = self.segments.last() else { return };
        let parameters = &*parameters.read();
        write_both(saved, recomputed, |kept, room| {
            workspace.write(|workspace| {
                let mut arenas = Arenas { kept, room, output: &mut [] };
                let mut run = Forward { shape, tokens, parameters, workspace };
                run.recompute_segment(&self.shares(shape)[segment.clone()], &mut arenas);
            });
        });
    }
}

/// What forwards and recomputations of a unit's layers have in common.
pub(super) struct Forward<'a> {
    pub(super) shape: MicroBatchShape,
    pub(super) tokens: Tokens<'a>,
    pub(super) parameters: &'a [f32],
    pub(super) workspace: &'a mut [f32],
}

impl Forward<'_> {
    /// Fills the room with what the layers of a segment saved. The output of the last one, which is the next layer's
    /// kept input, is not computed.
    pub(super) fn recompute_segment(&mut self, shares: &[Share<'_>], arenas: &mut Arenas<'_>) {
        let (last, others) = shares.split_last().expect("a segment has at least one layer");
        for share in others {
            self.layer(share, arenas);
        }
        let [input, saved] = arenas.lend([&last.input, &last.saved]);
        last.layer.recompute(
            self.shape,
            RecomputeArgs {
                tokens: self.tokens,
                parameters: &self.parameters[last.parameters.clone()],
                input,
                saved,
                workspace: &mut self.workspace[..last.sizes.forward_workspace],
            },
        );
    }

    fn layer(&mut self, share: &Share<'_>, arenas: &mut Arenas<'_>) -> Option<LossSum> {
        let [input, saved, output] = arenas.lend([&share.input, &share.saved, &share.output]);
        share.layer.forward(
            self.shape,
            ForwardArgs {
                tokens: self.tokens,
                parameters: &self.parameters[share.parameters.clone()],
                input,
                output,
                saved,
                workspace: &mut self.workspace[..share.sizes.forward_workspace],
            },
        )
    }
}
