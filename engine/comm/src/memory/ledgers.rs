//! The accounts of one rank.

use std::sync::Arc;

use super::ledger::Ledger;

/// What a rank holds, in two accounts.
#[derive(Debug, Default)]
pub struct Ledgers {
    /// What is planned: the model, and what its programs hold.
    pub planned: Arc<Ledger>,
    /// Scratch memory of commands between programs, which the plan does not count.
    pub scratch: Arc<Ledger>,
}
