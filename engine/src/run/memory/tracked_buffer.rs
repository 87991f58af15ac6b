//! A buffer that is charged to a rank's ledger for as long as it lives.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pipezero_models::{Buffer, ElementType, ModelError};

use pipezero_partition::Category;

use super::ledger::Ledger;

/// A [`Buffer`] with its entry in a [`Ledger`].
#[derive(Debug)]
pub struct TrackedBuffer {
    buffer: Buffer,
    charge: Charge,
}

impl TrackedBuffer {
    /// A buffer of `len` f32 zeros, charged to `category`.
    pub fn zeros(len: usize, category: Category, ledger: &Arc<Ledger>) -> Result<Self, ModelError> {
        Self::zeros_of(len, ElementType::F32, category, ledger)
    }

    /// A buffer of `len` zeros of a type, charged to `category`.
    pub fn zeros_of(
        len: usize,
        element_type: ElementType,
        category: Category,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, ModelError> {
        let buffer = Buffer::zeros_of(len, element_type)?;
        let charge = Charge::new(category, buffer.num_bytes(), ledger);
        Ok(Self { buffer, charge })
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
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    category: Category,
    num_bytes: u64,
}

impl Charge {
    /// Charges what has been allocated to `category`.
    pub(crate) fn new(category: Category, num_bytes: u64, ledger: &Arc<Ledger>) -> Self {
        ledger.charge(category, num_bytes);
        Self { ledger: Arc::clone(ledger), category, num_bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.release(self.category, self.num_bytes);
    }
}
