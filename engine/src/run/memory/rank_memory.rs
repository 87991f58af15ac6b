//! A rank's memory in figures: one shape for what is planned and what was measured.

use serde::Serialize;

use super::ledger::{Category, Ledger};

/// Peak bytes of one rank by category, planned or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankMemory {
    /// Parameters at rest.
    pub parameters: u64,
    /// Gathered units.
    pub gathered: u64,
    /// Gradients.
    pub gradients: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Activations and workspaces.
    pub activations: u64,
    /// Receive and send buffers.
    pub communication: u64,
    /// Most bytes held at once: the sum, where everything is allocated before the first step.
    pub peak: u64,
}

impl RankMemory {
    /// The names of [`RankMemory::figures`], which are those of the fields.
    pub const NAMES: [&str; 7] =
        ["parameters", "gathered", "gradients", "optimizer", "activations", "communication", "peak"];

    /// What a ledger measured.
    pub fn measured(ledger: &Ledger) -> Self {
        Self {
            parameters: ledger.peak_bytes(Category::Parameters),
            gathered: ledger.peak_bytes(Category::Gathered),
            gradients: ledger.peak_bytes(Category::Gradients),
            optimizer: ledger.peak_bytes(Category::Optimizer),
            activations: ledger.peak_bytes(Category::Activations),
            communication: ledger.peak_bytes(Category::Communication),
            peak: ledger.total_peak_bytes(),
        }
    }

    /// The figures in the order of tables: the categories, then the peak.
    pub fn figures(&self) -> [u64; 7] {
        let &Self { parameters, gathered, gradients, optimizer, activations, communication, peak } = self;
        [parameters, gathered, gradients, optimizer, activations, communication, peak]
    }
}

#[cfg(test)]
mod tests {
    use super::RankMemory;

    #[test]
    fn figures_have_the_names_of_their_fields() {
        let memory = RankMemory {
            parameters: 1,
            gathered: 2,
            gradients: 3,
            optimizer: 4,
            activations: 5,
            communication: 6,
            peak: 7,
        };
        let json = serde_json::to_value(memory).unwrap();
        assert_eq!(json.as_object().unwrap().len(), RankMemory::NAMES.len());
        for (name, figure) in RankMemory::NAMES.into_iter().zip(memory.figures()) {
            assert_eq!(json[name], figure, "{name}");
        }
    }
}
