//! The two halves of a unit's backward, for schedules that run them apart.

use super::places::Arenas;
use super::{Unit, UnitBackwardInput, UnitBackwardWeight, rooms, write_both};
use crate::element::Element;
use crate::layer::{BackwardInputArgs, BackwardWeightArgs, MicroBatchShape};
use crate::layout;

impl Unit {
    /// The input gradient.
    ///
    /// # Panics
    /// If the unit has segments: their values would have to outlive the room until the weight gradient.
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
        let UnitBackwardInput { tokens, parameters, gradient, saved, stash, workspace, loss_seed } = args;
        let parameters = self.backward_reads_weights().then(|| parameters.read_as::<E>());
        let parameters = parameters.as_deref().unwrap_or_default();
        write_both(gradient, saved, |gradient: &mut [f32], kept: &mut [E]| {
            write_both(stash, workspace, |stash: &mut [E], workspace| {
                let mut arenas = Arenas { kept, room: &mut [], output: &mut [] };
                for share in self.shares(shape).iter().rev() {
                    let sizes = share.sizes;
                    let [input, saved] = arenas.lend([&share.input, &share.saved]);
                    let stash = &mut stash[share.stash.clone()];
                    let [parameter_room, input_room, saved_room, workspace, stash_room] =
                        layout::split_mut(workspace, share.backward_rooms());
                    let parameters = share.parameters_for_backward(parameters);
                    share.layer.backward_input(
                        shape,
                        BackwardInputArgs {
                            tokens,
                            parameters: rooms::widened(parameters, parameter_room),
                            input: rooms::widened(input, input_room),
                            saved: rooms::widened_saved_mut(saved, sizes, saved_room),
                            gradient: &mut gradient[..sizes.input.max(sizes.output)],
                            stash: rooms::unwritten(stash, stash_room),
                            workspace,
                            loss_seed,
                        },
                    );
                    rooms::round::<E>(&mut gradient[..sizes.input]);
                    rooms::narrow_saved(saved_room, sizes, saved);
                    rooms::narrow(stash_room, stash);
                }
            })
        });
    }

    fn backward_weight_as<E: Element>(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        let UnitBackwardWeight { tokens, saved, stash, parameter_gradients, workspace } = args;
        let (kept, stash) = (&*saved.read_as::<E>(), &*stash.read_as::<E>());
        write_both(parameter_gradients, workspace, |parameter_gradients: &mut [f32], workspace| {
            for share in self.shares(shape).iter().rev() {
                let [_, input_room, saved_room, workspace, stash_room] =
                    layout::split_mut(workspace, share.backward_rooms());
                share.layer.backward_weight(
                    shape,
                    BackwardWeightArgs {
                        tokens,
                        input: rooms::widened(share.input.read(kept), input_room),
                        saved: rooms::widened_saved(share.saved.read(kept), share.sizes, saved_room),
                        stash: rooms::widened(&stash[share.stash.clone()], stash_room),
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
