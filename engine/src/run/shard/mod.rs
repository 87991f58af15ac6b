//! What of a model a rank holds: parameters, gradients and optimizer state at rest, whole or this rank's shard.

mod store;

pub(crate) use store::{GatheredCopy, StoreOptions, StoredUnit, UnitStore, UnreducedGradient, Weights};
