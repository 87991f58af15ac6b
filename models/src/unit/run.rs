//! The passes of a unit: its layers in order, each handed its share of the unit's buffers.

use crate::buffer::Buffer;
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, ForwardArgs, LossSum, MicroBatchShape, Tokens};
use crate::layout;

use super::{Unit, UnitBackward, UnitBackwardInput, UnitBackwardWeight, UnitForward};

impl Unit {
    /// Runs the layers in order; returns the loss if the last one computes it.
    ///
    /// # Panics
    /// If a buffer is shorter than [`Unit::sizes`] says, as do the backward passes.
    pub fn forward(&self, shape: MicroBatchShape, args: UnitForward<'_>) -> Option<LossSum> {
        let UnitForward { tokens, parameters, input, output, saved, workspace } = args;
        let (parameters, input) = (parameters.read(), input.read());
        output.write(|output| {
            saved.write(|saved| {
                let num_inputs = self.sizes(shape).input;
                saved[..num_inputs].copy_from_slice(&input[..num_inputs]);
                workspace
                    .write(|workspace| self.run_forward(shape, tokens, &parameters, output, saved, workspace))
            })
        })
    }

    /// The layers' forwards over `saved`, whose first input is in its place.
    fn run_forward(
        &self,
        shape: MicroBatchShape,
        tokens: Tokens<'_>,
        parameters: &[f32],
        output: &mut [f32],
        saved: &mut [f32],
        workspace: &mut [f32],
    ) -> Option<LossSum> {
        let mut loss = None;
        for (index, share) in self.shares(shape).enumerate() {
            let is_last = index + 1 == self.layers.len();
            let sizes = share.sizes;
            let (until_end, next) = saved.split_at_mut(share.saved.end);
            let [layer_input, layer_saved] =
                layout::split_mut(&mut until_end[share.saved.start..], [sizes.input, sizes.saved]);
            loss = share.layer.forward(
                shape,
                ForwardArgs {
                    tokens,
                    parameters: &parameters[share.parameters],
                    input: layer_input,
                    output: if is_last { &mut output[..sizes.output] } else { &mut next[..sizes.output] },
                    saved: layer_saved,
                    workspace: &mut workspace[..sizes.forward_workspace],
                },
            );
        }
        loss
    }

    /// The full backward, layer by layer from the last.
    pub fn backward(&self, shape: MicroBatchShape, args: UnitBackward<'_>) {
        let UnitBackward { tokens, parameters, gradient, saved, parameter_gradients, workspace, loss_seed } =
            args;
        let parameters = parameters.read();
        write_both(gradient, saved, |gradient, saved| {
            write_both(parameter_gradients, workspace, |parameter_gradients, workspace| {
                for share in self.shares_from_the_last(shape) {
                    let sizes = share.sizes;
                    let parameters = share.parameters_for_backward(&parameters);
                    let [input, saved] =
                        layout::split_mut(&mut saved[share.saved.clone()], [sizes.input, sizes.saved]);
                    let [workspace, stash] =
                        layout::split_mut(workspace, [sizes.backward_workspace, sizes.stash]);
                    let gradient = &mut gradient[..sizes.input.max(sizes.output)];
                    share.layer.backward(
                        shape,
                        BackwardInputArgs {
                            tokens,
                            parameters,
                            input,
                            saved,
                            gradient,
                            stash,
                            workspace,
                            loss_seed,
                        },
                        &mut parameter_gradients[share.parameters],
                    );
                }
            })
        });
    }

    /// The input gradient, layer by layer from the last.
    pub fn backward_input(&self, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        let UnitBackwardInput { tokens, parameters, gradient, saved, stash, workspace, loss_seed } = args;
        let parameters = parameters.read();
        write_both(gradient, saved, |gradient, saved| {
            write_both(stash, workspace, |stash, workspace| {
                for share in self.shares_from_the_last(shape) {
                    let sizes = share.sizes;
                    let parameters = share.parameters_for_backward(&parameters);
                    let [input, saved] =
                        layout::split_mut(&mut saved[share.saved.clone()], [sizes.input, sizes.saved]);
                    share.layer.backward_input(
                        shape,
                        BackwardInputArgs {
                            tokens,
                            parameters,
                            input,
                            saved,
                            gradient: &mut gradient[..sizes.input.max(sizes.output)],
                            stash: &mut stash[share.stash][..sizes.stash],
                            workspace: &mut workspace[..sizes.backward_workspace],
                            loss_seed,
                        },
                    );
                }
            })
        });
    }

    /// The weight gradient of every layer, from the last; bit-identical to the full backward's.
    pub fn backward_weight(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        let UnitBackwardWeight { tokens, saved, stash, parameter_gradients, workspace } = args;
        let (saved, stash) = (saved.read(), stash.read());
        write_both(parameter_gradients, workspace, |parameter_gradients, workspace| {
            for share in self.shares_from_the_last(shape) {
                let sizes = share.sizes;
                let [input, saved] = layout::split(&saved[share.saved.clone()], [sizes.input, sizes.saved]);
                share.layer.backward_weight(
                    shape,
                    BackwardWeightArgs {
                        tokens,
                        input,
                        saved,
                        stash: &stash[share.stash.clone()][..sizes.stash],
                        parameter_gradients: &mut parameter_gradients[share.parameters.clone()],
                        workspace: &mut workspace[..sizes.backward_workspace],
                    },
                );
            }
        });
    }
}

/// Lets `f` write to two buffers at once.
fn write_both<R>(first: &mut Buffer, second: &mut Buffer, f: impl FnOnce(&mut [f32], &mut [f32]) -> R) -> R {
    first.write(|first| second.write(|second| f(first, second)))
}
