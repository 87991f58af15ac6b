//! Carries out a plan: the threads of a process's ranks (`engine`), the loop over a rank's instructions (`executor`), data, the
//! optimizer, checkpoints, values of files with which no run can begin (`unusable_value`), and text from a trained model (`generation`).

pub mod checkpoint;
pub mod data;
pub mod engine;
pub mod executor;
pub mod generation;
pub mod optimizer;
pub(crate) mod shard;
pub mod unusable_value;
pub mod world;

pub use engine::Engine;
