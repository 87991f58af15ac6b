//! The full backward of a unit, layer by layer from the last.

use std::iter;

use super::forward::Forward;
use super::places::{Arenas, Share};
use super::{Unit, UnitBackward};
use crate::element::ElementType;
use crate::layer::{
    BackwardArgs, BackwardInputArgs, BackwardWeightArgs, GradientView, GradientViews, MicroBatchShape,
    Tokens, WriteMode,
};
use crate::memory::ViewMut;
use crate::queue::Queue;
use crate::views::{PartGradients, PartViews};

impl Unit {
    /// The full backward: the gradient that runs through the unit, and those of the parameters that are trained. Where there are segments,
    /// [`Unit::recompute`] has run for this micro-batch, and nothing else has used its buffer since.
    pub fn backward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: UnitBackward<'_>) {
        let UnitBackward {
            tokens,
            parameters,
            gradient,
            saved,
            recomputed,
            parameter_gradients: mut sums,
            workspace,
            loss_seed,
        } = args;
        self.clear_between_parameters(queue, sums.reborrow());
        let (mut gradient, mut workspace) = (gradient.view_mut(), workspace.view_mut());
        let shares = self.shares(shape);
        let mut arenas = Arenas { kept: saved.view_mut(), recomputed: recomputed.view_mut(), output: None };
        let mut recomputed_segment = self.segments.len().checked_sub(1);
        for share in shares.iter().rev() {
            let mut workspace = workspace.reborrow();
            if let Some(segment) = share.segment
                && recomputed_segment != Some(segment)
            {
                let mut run = Forward { queue, shape, tokens, parameters, workspace: workspace.reborrow() };
                run.recompute_segment(&shares[self.segments[segment].clone()], &mut arenas);
                recomputed_segment = Some(segment);
            }
            let gradient = gradient.reborrow();
            let run = Backward { queue, shape, tokens, parameters, gradient, workspace, loss_seed };
            run.layer(share, &mut arenas, share.gradients(sums.reborrow()));
        }
    }

    /// Sets elements of an overwritten gradient that belong to no parameter to zero: the few that align the next parameter, and
    /// the padding behind the last. No layer writes them, the norm and the optimizer read them, and a buffer that units share
    /// holds the gradient of another unit there.
    pub(super) fn clear_between_parameters(&self, queue: &dyn Queue, gradients: PartGradients<'_>) {
        for (part, gradients) in gradients.0.into_iter().enumerate() {
            let Some(GradientView { to: mut gradients, mode: WriteMode::Overwrite }) = gradients else {
                continue;
            };
            let mut end = 0;
            let len = gradients.len();
            for next in self.entries_of(part).map(|entry| entry.range.clone()).chain(iter::once(len..len)) {
                if end < next.start {
                    queue.clear(gradients.reborrow().range(end..next.start));
                }
                end = next.end;
            }
        }
    }
}

/// What full backwards of a unit's layers have in common.
struct Backward<'a> {
    queue: &'a dyn Queue,
    shape: MicroBatchShape,
    tokens: Tokens<'a>,
    parameters: PartViews<'a>,
    gradient: ViewMut<'a>,
    workspace: ViewMut<'a>,
    loss_seed: f32,
}

impl Backward<'_> {
    /// The input gradient and then, unless the layer is frozen, the weight gradient, which reads what it would read if the two were apart.
    fn layer(self, share: &Share<'_>, arenas: &mut Arenas<'_>, sums: Option<GradientViews<'_>>) {
        let Self { queue, shape, tokens, parameters, mut gradient, workspace, loss_seed } = self;
        let [input, saved, exact] = arenas.lend([&share.input, &share.saved, &share.exact]);
        let (types, mut exact) = (share.types, exact.cast(ElementType::F32));
        let mut pieces = share.backward_workspace(workspace);
        let input = types.widened(queue, input.into_view(), pieces.input);
        let mut saved = types.widened_mut(queue, saved, pieces.saved);
        // What the layer does not read need not be there: it may be resharded, and of any type.
        let parameters = share.parameters_for_backward(queue, parameters, pieces.parameters);
        let dinput = gradient.reborrow().range(0..share.sizes.input.max(share.sizes.output));
        if !share.layer.has_halves() {
            let args = BackwardArgs {
                tokens,
                parameters,
                input,
                saved,
                exact,
                gradient: dinput,
                parameter_gradients: sums,
                workspace: pieces.scratch,
                exact_workspace: pieces.exact_scratch,
                loss_seed,
            };
            share.layer.backward(queue, shape, args);
            share.round_gradient(queue, gradient);
            return;
        }
        share.layer.backward_input(
            queue,
            shape,
            BackwardInputArgs {
                tokens,
                parameters,
                input,
                saved: saved.reborrow(),
                exact: exact.reborrow(),
                gradient: dinput,
                weight_inputs: pieces.weight_inputs.reborrow(),
                exact_weight_inputs: pieces.exact_weight_inputs.reborrow(),
                workspace: pieces.scratch,
                exact_workspace: pieces.exact_scratch,
                loss_seed,
            },
        );
        share.round_gradient(queue, gradient);
        let Some(sums) = sums else { return };
        types.round(queue, saved.reborrow());
        types.round(queue, pieces.weight_inputs.reborrow());
        share.layer.backward_weight(
            queue,
            shape,
            BackwardWeightArgs {
                tokens,
                input,
                saved: saved.view(),
                exact: exact.view(),
                weight_inputs: pieces.weight_inputs.view(),
                exact_weight_inputs: pieces.exact_weight_inputs.view(),
                parameter_gradients: sums,
            },
        );
    }
}
