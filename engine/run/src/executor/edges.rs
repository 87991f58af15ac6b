//! The buffers of a rank's stage edges: two to receive into for each incoming edge, and as many to send gradients from as
//! the program needs.

use std::collections::BTreeMap;

use pipezero_comm::memory::{Allocator, Category, TrackedBuffer};
use pipezero_models::{ElementType, ModelError};
use pipezero_plan::{EdgeBuffers, RankSizes};
use pipezero_schedule::{Edge, MicroBatch};

/// The edges that this rank has an end of.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    free: BTreeMap<Edge, Vec<TrackedBuffer>>,
    /// Messages that have arrived, or are ready to be sent.
    held: BTreeMap<(Edge, MicroBatch), TrackedBuffer>,
}

impl Edges {
    pub(crate) fn new(
        sizes: &RankSizes,
        element_type: ElementType,
        memory: &Allocator,
    ) -> Result<Self, ModelError> {
        let mut free: BTreeMap<Edge, Vec<TrackedBuffer>> = BTreeMap::new();
        for &EdgeBuffers { edge, num_buffers, len } in &sizes.edge_buffers {
            for _ in 0..num_buffers {
                let buffer = memory.zeros_of(len, element_type, Category::Communication)?;
                free.entry(edge).or_default().push(buffer);
            }
        }
        Ok(Self { free, held: BTreeMap::new() })
    }

    /// A free buffer of the edge.
    pub(crate) fn take_free(&mut self, edge: Edge) -> TrackedBuffer {
        self.free
            .get_mut(&edge)
            .and_then(Vec::pop)
            .expect("a checked program uses no more buffers of an edge than it says")
    }

    pub(crate) fn give_back(&mut self, edge: Edge, buffer: TrackedBuffer) {
        self.free.entry(edge).or_default().push(buffer);
    }

    /// Keeps a message: one that arrived until it is consumed, one to be sent until it is.
    pub(crate) fn hold(&mut self, edge: Edge, micro_batch: MicroBatch, message: TrackedBuffer) {
        self.held.insert((edge, micro_batch), message);
    }

    pub(crate) fn take_held(&mut self, edge: Edge, micro_batch: MicroBatch) -> TrackedBuffer {
        self.held
            .remove(&(edge, micro_batch))
            .expect("a checked program takes a message once, after it is there")
    }
}
