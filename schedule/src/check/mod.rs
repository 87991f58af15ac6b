//! The checker: one rule per function, and the type that carries the proof.
//!
//! The rules, a file each, in the order in which they are tried (each may rely on those before it):
//!
//! 1. `names`: every instruction names things that exist, on the rank that holds them, and belongs to the policies.
//! 2. `complete`: every compute and transfer stands exactly once.
//! 3. `order`: forward before backward, recompute by its backward, a stage's units together and in order.
//! 4. `residency`: weights are gathered where they are read, within the buffers, and never without a use.
//! 5. `reduction`: every gradient is reduced as the policy says, after its last contribution.
//! 6. `transfers`: made before sent, received before read, in the same order at both ends, with a free buffer.
//! 7. `tail`: the end of the step is complete, in order, and nothing follows it.
//! 8. `liveness`: no waits form a cycle, even if a send ends only when its receive has been issued.
//!
//! Collectives over the data ranks need no rule: all data ranks of a pipeline rank run the same row.

mod checked;
mod complete;
mod excerpt;
mod high_water;
mod liveness;
mod names;
mod order;
mod reduction;
mod residency;
mod rule;
mod tail;
mod transfers;
mod violation;

pub use checked::CheckedProgram;
pub use high_water::HighWater;
pub use rule::{Blocked, GatherFault, Rule, Wait};
pub use violation::Violation;
use violation::{Checked, check_each, fills_free, runs_after};

#[cfg(test)]
mod tests;
