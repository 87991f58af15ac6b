//! The state of a run on disk: parameters, optimizer state, and how far the run was.
//!
//! A checkpoint is a folder. Every rank writes a file of its own with the elements that it owns (`shard_writer.rs`): safetensors, each
//! tensor a [`Piece`] of a parameter. The process that made the folder writes the [`Manifest`] last, which names all files, and the folder gets its
//! name only then ([`Checkpoints`]). So a folder of that name is complete, and what is cut off leaves the earlier one.
//!
//! Nothing in it depends on the grid: [`CheckpointReader`] finds the elements of a parameter in whichever files have them, so any grid
//! reads what any other wrote.
//!
//! ```text
//! checkpoints/step-00000100/manifest.json           how far, which parameters, all files with length and checksum
//!                           rank-00000.safetensors  parameter/wte.weight/0..512, exp_avg/wte.weight/0..512, ...
//!                           rank-00001.safetensors  parameter/wte.weight/512..1024, ...
//! ```
//!
//! **Damage.** The manifest has a checksum of each of its fields and of each file's header; a header has one of every block of
//! 1 MiB of its data. A reader checks each block that it reads, so it reads what it needs, once, and no damage stays unseen.

mod blocks;
mod copies;
mod cursor;
mod elements;
mod error;
mod folder;
mod folder_name;
mod foreign;
mod joint;
mod manifest;
mod new_checkpoint;
mod piece;
mod published;
mod reader;
mod shard_header;
mod shard_writer;
mod starts;
#[cfg(test)]
mod tests;

pub use blocks::digits;
pub use cursor::Cursor;
pub use error::CheckpointError;
pub use folder::Checkpoints;
pub use joint::JointCheckpoints;
pub(crate) use joint::JointSteps;
pub use manifest::{FileRecord, Manifest, ParameterRecord, Position};
pub use new_checkpoint::NewCheckpoint;
pub use piece::Piece;
pub use reader::CheckpointReader;
pub(crate) use shard_writer::ShardWriter;
pub use starts::{Starts, StepOfStart};
