//! The accounts of one rank.

use std::sync::Arc;

use crate::run::memory::Ledger;

/// What a rank holds, in two accounts.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    /// What is planned: the model, and what its programs hold.
    pub(super) planned: Arc<Ledger>,
    /// What commands between programs hold beside that.
    pub(super) between: Arc<Ledger>,
}
