//! The account of one rank's allocations.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an allocation is for; the categories of `plan --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Parameters at rest: whole, or this rank's shards.
    Parameters,
    /// Buffers that units are gathered into.
    Gathered,
    /// Gradient accumulators and the buffers of gradients in flight.
    Gradients,
    /// Optimizer state.
    Optimizer,
    /// Saved activations, workspaces, the streams between units, and the tokens of a step.
    Activations,
    /// Receive and send buffers.
    Communication,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Parameters,
        Self::Gathered,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::Communication,
    ];

    /// The name used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gathered => "gathered",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activations => "activations",
            Self::Communication => "communication",
        }
    }
}

/// Bytes held by one rank now and at most, by category.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: [Account; Category::ALL.len()],
    total: Account,
}

#[derive(Debug, Default)]
struct Account {
    held_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Account {
    fn add(&self, num_bytes: u64) {
        let held = self.held_bytes.fetch_add(num_bytes, Ordering::Relaxed) + num_bytes;
        self.peak_bytes.fetch_max(held, Ordering::Relaxed);
    }

    fn remove(&self, num_bytes: u64) {
        self.held_bytes.fetch_sub(num_bytes, Ordering::Relaxed);
    }
}

impl Ledger {
    /// Most bytes held at once in one category.
    pub fn peak_bytes(&self, category: Category) -> u64 {
        self.accounts[category as usize].peak_bytes.load(Ordering::Relaxed)
    }

    /// Most bytes held at once over all categories.
    pub fn total_peak_bytes(&self) -> u64 {
        self.total.peak_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn charge(&self, category: Category, num_bytes: u64) {
        self.accounts[category as usize].add(num_bytes);
        self.total.add(num_bytes);
    }

    pub(super) fn release(&self, category: Category, num_bytes: u64) {
        self.accounts[category as usize].remove(num_bytes);
        self.total.remove(num_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_stay_when_bytes_are_released() {
        let ledger = Ledger::default();
        ledger.charge(Category::Gathered, 100);
        ledger.charge(Category::Parameters, 50);
        ledger.release(Category::Gathered, 100);
        ledger.charge(Category::Parameters, 20);
        assert_eq!(ledger.peak_bytes(Category::Gathered), 100);
        assert_eq!(ledger.peak_bytes(Category::Parameters), 70);
        assert_eq!(ledger.total_peak_bytes(), 150);
    }
}
