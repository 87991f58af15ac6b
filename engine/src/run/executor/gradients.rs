//! Where the gradients of a backward go: into buffers of their own that are reduced next, or onto what has accumulated.

use std::array;

use pipezero_models::layer::WriteMode;
use pipezero_models::views::{MAX_PARTS, PartViewsMut};
use pipezero_schedule::Unit;

use super::compute::Compute;
use super::rank::Rank;
use crate::plan::{MAX_REDUCED_PARTS, PlannedUnit};
use crate::run::memory::{Lendable, TrackedBuffer};
use crate::run::shard::UnreducedGradient;

/// What a backward writes gradients of parameters to.
#[derive(Debug)]
pub(super) struct GradientTarget {
    /// `[part]`
    buffers: [Option<TrackedBuffer>; MAX_REDUCED_PARTS],
    /// What happens to what they hold.
    pub(super) mode: WriteMode,
    /// The index among the rank's gradient buffers; none where gradients accumulate.
    fresh: Option<usize>,
}

impl GradientTarget {
    /// The flat gradient of each part, padding included.
    pub(super) fn views(&mut self, unit: &PlannedUnit) -> PartViewsMut<'_> {
        let mut views: [_; MAX_PARTS] = array::from_fn(|_| None);
        for ((view, buffer), part) in views.iter_mut().zip(&mut self.buffers).zip(&unit.parts) {
            *view = buffer.as_mut().map(|buffer| buffer.view_mut().range(0..part.layout.padded_len()));
        }
        PartViewsMut(views)
    }
}

impl Rank {
    /// Where the gradients of this `B` or `W` go.
    pub(super) fn take_gradient_target(&mut self, compute: Compute<'_>) -> GradientTarget {
        let Compute { program, at, unit, .. } = compute;
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let fresh = program.gradient_buffer(at);
        let mut mode = WriteMode::Overwrite;
        let buffers = array::from_fn(|index| {
            let part = store.parts.get_mut(index)?;
            Some(match fresh {
                Some(fresh) => self.gradient_buffers[fresh][index].lend(),
                None => {
                    mode = part.take_next_mode();
                    part.gradient.lend()
                }
            })
        });
        GradientTarget { buffers, mode, fresh }
    }

    /// What was written waits for its reduction, or is a part of the step's gradient.
    pub(super) fn keep_gradients(&mut self, unit: Unit, target: GradientTarget) {
        let GradientTarget { buffers, fresh, .. } = target;
        let store = self.store_mut(unit);
        if let Some(index) = fresh {
            store.unreduced.push_back(UnreducedGradient { buffers, index });
            return;
        }
        let gradients = store.parts.iter_mut().map(|part| &mut part.gradient);
        let give_back = |(own, buffer): (&mut Lendable<TrackedBuffer>, TrackedBuffer)| own.give_back(buffer);
        gradients.zip(buffers.into_iter().flatten()).for_each(give_back);
    }
}
