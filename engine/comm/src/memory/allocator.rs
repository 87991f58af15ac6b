//! Where a rank's buffers come from.

use std::sync::Arc;

use pipezero_models::{Buffer, ElementType, ModelError, Queue};
use pipezero_partition::Category;

use super::host_values::HostValues;
use super::ledger::Ledger;
use super::tracked_buffer::{Charge, TrackedBuffer};

/// Allocates buffers in the memory of a rank's device and charges them to a ledger.
#[derive(Clone, Debug)]
pub struct Allocator {
    queue: Arc<dyn Queue>,
    ledger: Arc<Ledger>,
}

impl Allocator {
    /// Allocates where this queue computes.
    pub fn new(queue: Arc<dyn Queue>, ledger: Arc<Ledger>) -> Self {
        Self { queue, ledger }
    }

    /// A buffer of `len` f32 zeros, charged to `category`.
    ///
    /// # Errors
    /// When the device has no such memory left.
    pub fn zeros(&self, len: usize, category: Category) -> Result<TrackedBuffer, ModelError> {
        self.zeros_of(len, ElementType::F32, category)
    }

    /// A buffer of `len` zeros of a type, charged to `category`.
    ///
    /// # Errors
    /// As [`Allocator::zeros`].
    pub fn zeros_of(
        &self,
        len: usize,
        element_type: ElementType,
        category: Category,
    ) -> Result<TrackedBuffer, ModelError> {
        Ok(self.charged(self.queue.zeros(len, element_type)?, category))
    }

    /// A buffer that was allocated elsewhere, charged to `category`.
    pub fn charged(&self, buffer: Buffer, category: Category) -> TrackedBuffer {
        TrackedBuffer::new(buffer, category, &self.ledger)
    }

    /// `len` f32 zeros in the host's memory, wherever the queue computes.
    ///
    /// # Errors
    /// When the host has no such memory left.
    pub fn host_zeros(&self, len: usize, category: Category) -> Result<HostValues, ModelError> {
        HostValues::zeros(len, category, &self.ledger)
    }

    /// Charges `len` f32 values that others allocate, in the host's memory.
    pub fn charge(&self, len: usize, category: Category) -> Charge {
        Charge::new(&self.ledger, category, ElementType::F32.num_bytes() as u64 * len as u64)
    }

    /// What counts its buffers.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}
