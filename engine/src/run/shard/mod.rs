//! What of a model a rank holds: the cut of each unit into shards, and the parameters, gradients and optimizer state
//! at rest.
//!
//! `layout` is the only place with offset arithmetic over shards.

mod layout;
mod loan;
mod store;

pub use layout::ShardLayout;
pub(crate) use loan::Loan;
pub(crate) use pipezero_partition::Purpose;
pub(crate) use store::{GatheredCopy, StoreOptions, StoredUnit, UnitStore, Weights};
