//! Generators: each makes the compute order of one schedule, and nothing else.
//!
//! Every stage runs its backwards in ascending micro-batch order, so that gradients are summed in the same order
//! under every schedule.

mod alternate;
mod bfs;
mod eager_1f1b;
mod forward_only;
mod gpipe;
mod groups;
mod interleaved;
mod one_f_one_b;
mod size;
mod split;
mod zb_h1;
mod zb_h2;
mod zb_v;

pub use bfs::bfs;
pub use eager_1f1b::eager_1f1b;
pub use forward_only::{forward_only, forward_only_on};
pub use gpipe::gpipe;
pub use interleaved::interleaved;
pub use one_f_one_b::one_f_one_b;
pub use size::SizeError;
pub use zb_h1::zb_h1;
pub use zb_h2::zb_h2;
pub use zb_v::zb_v;

#[cfg(test)]
mod tests;
