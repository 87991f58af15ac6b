//! A buffer that is charged to a rank's ledger for as long as it lives.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pipezero_models::{Buffer, ModelError};

use super::ledger::{Category, Ledger};

/// A [`Buffer`] with its entry in a [`Ledger`].
#[derive(Debug)]
pub struct Tagged {
    buffer: Buffer,
    charge: Charge,
}

impl Tagged {
    /// A buffer of `len` zeros, charged to `category`.
    pub fn zeros(len: usize, category: Category, ledger: &Arc<Ledger>) -> Result<Self, ModelError> {
        let buffer = Buffer::zeros(len)?;
        let charge = Charge { ledger: Arc::clone(ledger), category, num_bytes: buffer.num_bytes() };
        charge.ledger.charge(category, charge.num_bytes);
        Ok(Self { buffer, charge })
    }

    /// Exchanges the contents of two buffers of equal length without a copy; each stays charged where it was.
    ///
    /// # Panics
    /// If the lengths differ, which callers have checked.
    pub fn swap_contents(&mut self, other: &mut Self) {
        assert_eq!(self.charge.num_bytes, other.charge.num_bytes, "only equal lengths can be exchanged");
        std::mem::swap(&mut self.buffer, &mut other.buffer);
    }
}

impl Deref for Tagged {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl DerefMut for Tagged {
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

#[derive(Debug)]
struct Charge {
    ledger: Arc<Ledger>,
    category: Category,
    num_bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.release(self.category, self.num_bytes);
    }
}
