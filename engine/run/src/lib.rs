//! What happens: the ranks' threads, what they hold, what they send each other, and the loop that runs a rank's row.

pub mod checkpoint;
pub mod data;
pub mod engine;
pub mod executor;
pub mod generation;
pub mod optimizer;
pub(crate) mod shard;
pub mod world;

pub use engine::Engine;
