//! A buffer that is charged to a rank's ledger for as long as it lives.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pipezero_models::Buffer;
use pipezero_partition::Category;

use super::ledger::Ledger;

/// A [`Buffer`] with its entry in a [`Ledger`].
#[derive(Debug)]
pub struct TrackedBuffer {
    buffer: Buffer,
    charge: Charge,
}

impl TrackedBuffer {
    /// Charges a buffer to `category`.
    pub(super) fn new(buffer: Buffer, category: Category, ledger: &Arc<Ledger>) -> Self {
        let num_bytes = buffer.num_bytes();
        Self { buffer, charge: Charge::new(ledger, category, num_bytes) }
    }

    /// Swaps the contents of two buffers of equal size without a copy; each charge stays where it was.
    ///
    /// # Panics
    /// If the sizes differ, which callers have checked.
    pub fn swap_contents(&mut self, other: &mut Self) {
        assert_eq!(self.charge.num_bytes, other.charge.num_bytes, "only buffers of equal size are swapped");
        std::mem::swap(&mut self.buffer, &mut other.buffer);
    }
}

impl Deref for TrackedBuffer {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl DerefMut for TrackedBuffer {
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

/// An entry in a [`Ledger`], for as long as it lives.
#[derive(Debug)]
pub struct Charge {
    ledger: Arc<Ledger>,
    category: Category,
    num_bytes: u64,
}

impl Charge {
    pub(super) fn new(ledger: &Arc<Ledger>, category: Category, num_bytes: u64) -> Self {
        ledger.charge(category, num_bytes);
        Self { ledger: Arc::clone(ledger), category, num_bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.release(self.category, self.num_bytes);
    }
}
