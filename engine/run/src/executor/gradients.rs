//! Where the gradients of a backward go: into buffers of their own that are reduced next, or onto what has accumulated.

use std::array;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_models::layer::WriteMode;
use pipezero_models::views::{GradientView, MAX_PARTS, PartGradients};
use pipezero_plan::{PlannedUnit, Reduced};
use pipezero_schedule::Unit;

use super::compute::Compute;
use super::rank::Rank;
use crate::shard::UnreducedGradient;

/// What a backward writes gradients of parameters to.
#[derive(Debug)]
pub(super) struct GradientTarget {
    /// `[part]`, and what happens to what they hold; none of what is frozen.
    buffers: [Option<(TrackedBuffer, WriteMode)>; MAX_PARTS],
    /// The index among the rank's gradient buffers of those that are reduced next; none where all gradients accumulate.
    fresh: Option<usize>,
}

impl GradientTarget {
    /// The flat gradient of each part, padding included.
    pub(super) fn views(&mut self, unit: &PlannedUnit) -> PartGradients<'_> {
        let mut parts = unit.parts.iter();
        PartGradients(self.buffers.each_mut().map(|target| {
            let (part, (buffer, mode)) = (parts.next()?, target.as_mut()?);
            Some(GradientView { to: buffer.view_mut().range(0..part.layout.padded_len()), mode: *mode })
        }))
    }
}

impl Rank {
    /// Where the gradients of this `B` or `W` go.
    pub(super) fn take_gradient_target(&mut self, compute: Compute<'_>) -> GradientTarget {
        let Compute { program, at, unit, .. } = compute;
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let fresh = program.gradient_buffer(at);
        let buffers = array::from_fn(|index| {
            let part = store.parts.get_mut(index)?;
            match (part.reduced, fresh) {
                (Reduced::Never, _) => None,
                (Reduced::Every, Some(fresh)) => {
                    Some((self.gradient_buffers[fresh][index].lend(), WriteMode::Overwrite))
                }
                (Reduced::Every | Reduced::Last, _) => {
                    let mode = part.take_next_mode();
                    Some((part.gradient.lend(), mode))
                }
            }
        });
        GradientTarget { buffers, fresh }
    }

    /// What was written waits for its reduction, or is a part of the step's gradient.
    pub(super) fn keep_gradients(&mut self, unit: Unit, target: GradientTarget) {
        let GradientTarget { mut buffers, fresh } = target;
        let store = self.store_mut(unit);
        for (part, buffer) in store.parts.iter_mut().zip(&mut buffers) {
            if (fresh.is_none() || part.reduced == Reduced::Last)
                && let Some((buffer, _)) = buffer.take()
            {
                part.gradient.give_back(buffer);
            }
        }
        if let Some(index) = fresh {
            let buffers = buffers.map(|buffer| Some(buffer?.0));
            store.unreduced.push_back(UnreducedGradient { buffers, index });
        }
    }
}
