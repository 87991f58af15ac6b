//! Generators: each makes the compute order of one schedule, and nothing else.
//!
//! Every stage runs its backwards in ascending micro-batch order, so that gradients are summed in one order whatever
//! the schedule.

mod forward_only;
mod gpipe;
mod one_f_one_b;
mod size;

pub use forward_only::forward_only;
pub use gpipe::gpipe;
pub use one_f_one_b::one_f_one_b;
pub use size::SizeError;

#[cfg(test)]
mod tests;
