//! Generators: each makes the compute order of one schedule, and nothing else.
//!
//! Every stage runs its backwards in ascending micro-batch order, so that gradients are summed in one order whatever
//! the schedule.

mod alternate;
mod bfs;
mod eager_1f1b;
mod forward_only;
mod gpipe;
mod groups;
mod interleaved;
mod one_f_one_b;
mod size;

pub use bfs::bfs;
pub use eager_1f1b::eager_1f1b;
pub use forward_only::{forward_only, forward_only_on};
pub use gpipe::gpipe;
pub use interleaved::interleaved;
pub use one_f_one_b::one_f_one_b;
pub use size::SizeError;

#[cfg(test)]
mod tests;
