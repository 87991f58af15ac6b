//! The account of one rank's allocations.

use std::sync::atomic::{AtomicU64, Ordering};

use pipezero_partition::{Category, RankMemory};

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

    /// The peaks of all categories, in the shape in which they were planned.
    pub fn peaks(&self) -> RankMemory {
        RankMemory {
            parameters: self.peak_bytes(Category::Parameters),
            gathered: self.peak_bytes(Category::Gathered),
            gradients: self.peak_bytes(Category::Gradients),
            optimizer: self.peak_bytes(Category::Optimizer),
            activations: self.peak_bytes(Category::Activations),
            communication: self.peak_bytes(Category::Communication),
            checkpoint: self.peak_bytes(Category::Checkpoint),
            peak: self.total_peak_bytes(),
        }
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

    #[test]
    fn peaks_come_under_the_names_of_their_categories() {
        let ledger = Ledger::default();
        for (num_bytes, category) in (1..).zip(Category::ALL) {
            ledger.charge(category, num_bytes);
        }
        let memory = ledger.peaks();
        assert_eq!(memory.figures(), [1, 2, 3, 4, 5, 6, 7, 28]);
        let json = serde_json::to_value(memory).unwrap();
        assert_eq!(json.as_object().unwrap().len(), RankMemory::NAMES.len());
        for (name, figure) in RankMemory::NAMES.into_iter().zip(memory.figures()) {
            assert_eq!(json[name], figure, "{name}");
        }
        assert_eq!(Category::ALL.map(Category::name), RankMemory::NAMES[..7]);
    }
}
