//! What happens: the ranks' threads, what they hold, what they send each other, and the loop that runs a rank's row.

pub mod checkpoint;
pub mod comm;
pub mod data;
pub mod engine;
pub(crate) mod executor;
pub mod generation;
pub mod memory;
pub mod optimizer;
pub(crate) mod shard;
mod sync;
pub mod world;

pub use engine::Engine;
