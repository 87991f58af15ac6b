//! What of a model a rank holds: parameters, gradients and optimizer state at rest, whole or this rank's shard.

mod loan;
mod store;

pub(crate) use loan::Loan;
pub(crate) use store::{GatheredCopy, StoreOptions, StoredUnit, UnitStore, Weights};
