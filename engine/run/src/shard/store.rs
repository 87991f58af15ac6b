//! What a rank holds of one unit: its parts, what is gathered of it, and gradients that wait for their reductions.

use std::collections::VecDeque;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_models::views::MAX_PARTS;
use pipezero_models::{ModelError, Queue};
use pipezero_plan::PlannedUnit;

use super::part_store::{PartStore, StoreOptions, StoredPart};

/// What is sharded of a unit's weights, gathered for use.
#[derive(Debug)]
pub(crate) struct GatheredCopy {
    /// `[part]`: holds the part's flat parameters; may be longer. None where the part is not gathered.
    pub(crate) buffers: [Option<TrackedBuffer>; MAX_PARTS],
    /// The index of the buffer among the rank's gather buffers.
    pub(crate) index: usize,
}

/// The gradient of one backward, which waits for its reduction.
#[derive(Debug)]
pub(crate) struct UnreducedGradient {
    /// `[part]`: holds the part's flat gradient; may be longer. None where the unit has no such part, or it accumulates whole, or is frozen.
    pub(crate) buffers: [Option<TrackedBuffer>; MAX_PARTS],
    /// The index among the rank's gradient buffers.
    pub(crate) index: usize,
}

/// One unit on one rank.
#[derive(Debug)]
pub(crate) struct UnitStore {
    /// Its parts, as the unit numbers them.
    pub(crate) parts: Vec<PartStore>,
    /// Gathered copies, the oldest first.
    pub(crate) gathered: VecDeque<GatheredCopy>,
    /// Gradients that wait for their reductions, the oldest first, where each micro-batch's is reduced.
    pub(crate) unreduced: VecDeque<UnreducedGradient>,
}

impl UnitStore {
    /// Allocates the store of a unit with parameters of its own, all zeros.
    pub(crate) fn new(planned: &PlannedUnit, options: StoreOptions<'_>) -> Result<Self, ModelError> {
        Self::of(planned, |part| PartStore::new(part, options))
    }

    /// Allocates the store of the second use of a tied weight: a gradient accumulator, no weights, no state.
    pub(crate) fn tied(planned: &PlannedUnit, options: StoreOptions<'_>) -> Result<Self, ModelError> {
        Self::of(planned, |part| PartStore::tied(part, options))
    }

    fn of(
        planned: &PlannedUnit,
        store: impl Fn(StoredPart<'_>) -> Result<PartStore, ModelError>,
    ) -> Result<Self, ModelError> {
        let PlannedUnit { unit, parts, .. } = planned;
        let parts = parts.iter().enumerate();
        let parts = parts.map(|(part, &planned)| store(StoredPart { unit, part, planned }));
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            gathered: VecDeque::new(),
            unreduced: VecDeque::new(),
        })
    }

    /// A step begins: whatever became of the step before, its gradients are not read any more.
    pub(crate) fn begin_step(&mut self, queue: &dyn Queue) {
        self.parts.iter_mut().for_each(|part| part.begin_step(queue));
    }
}
