//! The backward of a unit, at once or in its two halves, layer by layer from the last.

use super::forward::Forward;
use super::places::Arenas;
use super::{Unit, UnitBackward, UnitBackwardInput, UnitBackwardWeight, write_both};
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape};
use crate::layout;

impl Unit {
    /// The full backward.
    pub fn backward(&self, shape: MicroBatchShape, args: UnitBackward<'_>) {
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
        let parameters = &*parameters.read();
        write_both(saved, recomputed, |kept, room| {
            write_both(gradient, parameter_gradients, |gradient, parameter_gradients| {
                workspace.write(|workspace| {
                    let shares = self.shares(shape);
                    let mut arenas = Arenas { kept, room, output: &mut [] };
                    let mut segment_in_room = self.segments.len().checked_sub(1);
                    for share in shares.iter().rev() {
                        if let Some(segment) = share.segment
                            && segment_in_room != Some(segment)
                        {
                            let mut run = Forward { shape, tokens, parameters, workspace };
                            run.recompute_segment(&shares[self.segments[segment].clone()], &mut arenas);
                            segment_in_room = Some(segment);
                        }
                        let sizes = share.sizes;
                        let [input, saved] = arenas.lend([&share.input, &share.saved]);
                        let [workspace, stash] =
                            layout::split_mut(workspace, [sizes.backward_workspace, sizes.stash]);
                        share.layer.backward(
                            shape,
                            BackwardInputArgs {
                                tokens,
                                parameters: share.parameters_for_backward(parameters),
                                input,
                                saved,
                                gradient: &mut gradient[..sizes.input.max(sizes.output)],
                                stash,
                                workspace,
                                loss_seed,
                            },
                            &mut parameter_gradients[share.parameters.clone()],
                        );
                    }
                });
            });
        });
    }

    /// The input gradient.
    ///
    /// # Panics
    /// If the unit has segments: their values would have to outlive the room until the weight gradient.
    pub fn backward_input(&self, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        let UnitBackwardInput { tokens, parameters, gradient, saved, stash, workspace, loss_seed } = args;
        self.assert_keeps_all();
        let parameters = &*parameters.read();
        write_both(gradient, saved, |gradient, kept| {
            write_both(stash, workspace, |stash, workspace| {
                let mut arenas = Arenas { kept, room: &mut [], output: &mut [] };
                for share in self.shares(shape).iter().rev() {
                    let sizes = share.sizes;
                    let [input, saved] = arenas.lend([&share.input, &share.saved]);
                    share.layer.backward_input(
                        shape,
                        BackwardInputArgs {
                            tokens,
                            parameters: share.parameters_for_backward(parameters),
                            input,
                            saved,
                            gradient: &mut gradient[..sizes.input.max(sizes.output)],
                            stash: &mut stash[share.stash.clone()],
                            workspace: &mut workspace[..sizes.backward_workspace],
                            loss_seed,
                        },
                    );
                }
            })
        });
    }

    /// The weight gradient of every layer; bit-identical to the full backward's.
    ///
    /// # Panics
    /// As [`Unit::backward_input`].
    pub fn backward_weight(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        let UnitBackwardWeight { tokens, saved, stash, parameter_gradients, workspace } = args;
        self.assert_keeps_all();
        let (kept, stash) = (&*saved.read(), &*stash.read());
        write_both(parameter_gradients, workspace, |parameter_gradients, workspace| {
            for share in self.shares(shape).iter().rev() {
                share.layer.backward_weight(
                    shape,
                    BackwardWeightArgs {
                        tokens,
                        input: share.input.read(kept),
                        saved: share.saved.read(kept),
                        stash: &stash[share.stash.clone()],
                        parameter_gradients: &mut parameter_gradients[share.parameters.clone()],
                        workspace: &mut workspace[..share.sizes.backward_workspace],
                    },
                );
            }
        });
    }

    fn assert_keeps_all(&self) {
        assert!(self.segments.is_empty(), "a unit with segments runs its backward at once, not in halves");
    }
}
