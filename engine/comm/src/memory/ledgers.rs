//! The accounts of one rank.

use std::sync::Arc;

use super::ledger::Ledger;

/// What a rank holds, in two accounts.
#[derive(Debug, Default)]
pub struct Ledgers {
    /// What is planned: the model, and what its programs hold.
    pub planned: Arc<Ledger>,
    /// What commands between programs hold beside that.
    pub between: Arc<Ledger>,
}
