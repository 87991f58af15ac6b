//! The buffers of a rank's stage edges: two to receive into for each incoming edge, two to send gradients from.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipezero_models::ModelError;
use pipezero_schedule::{Edge, MicroBatch};

use crate::memory::{Category, Ledger, Tagged};
use crate::plan::{BUFFERS_PER_EDGE, RankSizes};

/// The edges that this rank has an end of.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    free: BTreeMap<Edge, Vec<Tagged>>,
    /// Messages that have arrived, or are ready to be sent.
    held: BTreeMap<(Edge, MicroBatch), Tagged>,
}

impl Edges {
    pub(crate) fn new(sizes: &RankSizes, ledger: &Arc<Ledger>) -> Result<Self, ModelError> {
        let mut free: BTreeMap<Edge, Vec<Tagged>> = BTreeMap::new();
        for &(edge, len) in &sizes.edge_buffers {
            for _ in 0..BUFFERS_PER_EDGE {
                free.entry(edge).or_default().push(Tagged::zeros(len, Category::Communication, ledger)?);
            }
        }
        Ok(Self { free, held: BTreeMap::new() })
    }

    /// A free buffer of the edge.
    pub(crate) fn take_free(&mut self, edge: Edge) -> Tagged {
        self.free
            .get_mut(&edge)
            .and_then(Vec::pop)
            .expect("a checked program uses two buffers of an edge at most")
    }

    pub(crate) fn give_back(&mut self, edge: Edge, buffer: Tagged) {
        self.free.entry(edge).or_default().push(buffer);
    }

    /// Keeps a message: one that arrived until it is consumed, one to be sent until it is.
    pub(crate) fn hold(&mut self, edge: Edge, micro_batch: MicroBatch, message: Tagged) {
        self.held.insert((edge, micro_batch), message);
    }

    pub(crate) fn take_held(&mut self, edge: Edge, micro_batch: MicroBatch) -> Tagged {
        self.held
            .remove(&(edge, micro_batch))
            .expect("a checked program takes a message once, after it is there")
    }
}
