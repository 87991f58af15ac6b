//! What of a model a rank holds: parameters, gradients and optimizer state at rest, whole or this rank's shard.

mod part_store;
mod store;

pub(crate) use part_store::{PartStore, StoreOptions, Weights};
pub(crate) use store::{GatheredCopy, UnitStore, UnreducedGradient};
