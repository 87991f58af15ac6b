//! The forward of a unit, and the recomputation of what it did not keep.

use super::places::{Arenas, Share};
use super::{Unit, UnitForward, UnitRecompute};
use crate::element::ElementType;
use crate::layer::{ForwardArgs, MicroBatchShape, RecomputeArgs, RowLogits, Tokens};
use crate::memory::{View, ViewMut};
use crate::queue::Queue;
use crate::views::PartViews;

impl Unit {
    /// Runs the layers in order.
    ///
    /// # Panics
    /// If a buffer is shorter than [`Unit::sizes`] says or of another type, as do the other passes.
    pub fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitForward<'_>) {
        self.forward_watched(queue, shape, args, |_, _| {});
    }

    /// As [`Unit::forward`], and after each layer `watch` is given its index and its output: a later layer or micro-batch may overwrite it.
    /// That of a layer that ends with the loss is empty.
    ///
    /// # Panics
    /// As [`Unit::forward`].
    pub fn forward_watched(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        args: UnitForward<'_>,
        mut watch: impl FnMut(usize, View<'_>),
    ) {
        let UnitForward {
            tokens,
            parameters,
            input,
            output,
            saved,
            recomputed,
            workspace,
            mut loss,
            mut row_logits,
        } = args;
        let shares = self.shares(shape);
        let first = shares.first().filter(|first| first.layer.table_slice().is_first());
        let num_inputs = first.map_or(0, |first| first.sizes.input);
        let mut kept = saved.view_mut();
        queue.copy(input.view().range(0..num_inputs), kept.reborrow().range(0..num_inputs));
        let mut arenas = Arenas { kept, recomputed: recomputed.view_mut(), output: Some(output.view_mut()) };
        let workspace = workspace.view_mut();
        let mut run = Forward { queue, shape, tokens, parameters, workspace };
        for (index, share) in shares.iter().enumerate() {
            let asked = (Some(loss.reborrow()), row_logits.as_mut().map(RowLogits::reborrow));
            run.layer(share, &mut arenas, asked);
            let [output] = arenas.lend([&share.output]);
            watch(index, output.into_view());
        }
    }

    /// Recomputes what the layers of the *last* segment saved, for the backward that follows. Without segments it does
    /// nothing.
    ///
    /// The backward recomputes earlier segments itself, each when it gets there, since all share one buffer.
    pub fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitRecompute<'_>) {
        let UnitRecompute { tokens, parameters, saved, recomputed, workspace } = args;
        let Some(segment) = self.segments.last() else { return };
        let mut arenas = Arenas { kept: saved.view_mut(), recomputed: recomputed.view_mut(), output: None };
        let workspace = workspace.view_mut();
        let mut run = Forward { queue, shape, tokens, parameters, workspace };
        run.recompute_segment(&self.shares(shape)[segment.clone()], &mut arenas);
    }
}

/// What forwards and recomputations of a unit's layers have in common.
pub(super) struct Forward<'a> {
    pub(super) queue: &'a dyn Queue,
    pub(super) shape: MicroBatchShape,
    pub(super) tokens: Tokens<'a>,
    pub(super) parameters: PartViews<'a>,
    pub(super) workspace: ViewMut<'a>,
}

impl Forward<'_> {
    /// Writes what the layers of a segment saved into the buffer for recomputation. The output of the last one, which is the next layer's
    /// kept input, is not computed.
    pub(super) fn recompute_segment(&mut self, shares: &[Share<'_>], arenas: &mut Arenas<'_>) {
        let queue = self.queue;
        let (last, others) = shares.split_last().expect("a segment has at least one layer");
        for share in others {
            self.layer(share, arenas, (None, None));
        }
        let [input, mut saved, exact] = arenas.lend([&last.input, &last.saved, &last.exact]);
        let (types, mut pieces) = (last.types, last.forward_workspace(self.workspace.reborrow()));
        last.layer.recompute(
            queue,
            self.shape,
            RecomputeArgs {
                tokens: self.tokens,
                parameters: last.parameters(queue, self.parameters, pieces.parameters),
                input: types.widened(queue, input.into_view(), pieces.input),
                saved: types.unwritten(saved.reborrow(), pieces.saved.reborrow()),
                exact: exact.cast(ElementType::F32),
                workspace: pieces.scratch,
                exact_workspace: pieces.exact_scratch,
            },
        );
        types.narrow(queue, pieces.saved.view(), saved);
    }

    /// What may be asked for is what [`ForwardArgs::loss`] and [`ForwardArgs::row_logits`] say.
    fn layer(
        &mut self,
        share: &Share<'_>,
        arenas: &mut Arenas<'_>,
        (loss, row_logits): (Option<ViewMut<'_>>, Option<RowLogits<'_>>),
    ) {
        let queue = self.queue;
        let [input, mut saved, exact, mut output] =
            arenas.lend([&share.input, &share.saved, &share.exact, &share.output]);
        let (types, mut pieces) = (share.types, share.forward_workspace(self.workspace.reborrow()));
        let (not_asked_for, exact_workspace) = pieces.exact_scratch.split_at(0);
        let (stored, copy) = (output.reborrow(), pieces.output.reborrow());
        // A slice adds to the output of those before it.
        let output_here = match share.layer.table_slice().is_first() {
            true => types.unwritten(stored, copy),
            false => types.widened_mut(queue, stored, copy),
        };
        share.layer.forward(
            queue,
            self.shape,
            ForwardArgs {
                tokens: self.tokens,
                parameters: share.parameters(queue, self.parameters, pieces.parameters),
                input: types.widened(queue, input.into_view(), pieces.input),
                output: output_here,
                saved: types.unwritten(saved.reborrow(), pieces.saved.reborrow()),
                exact: exact.cast(ElementType::F32),
                workspace: pieces.scratch,
                exact_workspace,
                loss: loss.unwrap_or(not_asked_for),
                row_logits,
            },
        );
        types.narrow(queue, pieces.saved.view(), saved);
        types.narrow(queue, pieces.output.view(), output);
    }
}
