//! Which weights are sharded, persistent and whole: the fewest bytes sent that fit, or the lowest peak.
//!
//! A weight that stays whole takes memory and saves messages, and it makes buffers smaller where it was the largest in them. So what
//! a choice costs is not a sum over weights:
//!
//! ```text
//! peak = fixed + sum at rest(weight, its kind) + gather buffers(those sharded) + gradient buffers(those not whole)
//! sent = fixed + sum sent(weight, its kind)    + gathers(those sharded)
//! ```
//!
//! | kind | at rest | messages of a step |
//! |---|---|---|
//! | sharded | shards | gathers before uses; a reduction after every micro-batch |
//! | persistent | whole weights, shards of gradients | one gather; a reduction after every micro-batch |
//! | whole | whole weights and gradients | one gather, one reduction |
//!
//! Ranks are chosen for one by one, except two that share a tied weight: both uses must be of one kind, so these two are chosen for
//! together. Where every rank has at most [`TRIED_WEIGHTS_MAX`] weights, all choices are tried; both kinds of buffers depend on two
//! marks per weight, so of `3^n` choices only `2^n` rows are planned. A rank with more has many that are alike (slices of a
//! vocabulary, transformer blocks), and buffers are as large as their largest weights. There only choices are tried that take weights up to some size
//! and a few larger ones; the best of these is then improved weight by weight, in order of bytes saved for each byte of memory.
//!
//! Rejected: one threshold of size, as DeepSpeed has it, which cannot say that a large table stays whole while small blocks
//! are sharded; and integer programming, for which buffers would have to be linear.

mod candidates;
mod choose;
mod costs;
mod options;
mod rank;
mod upgrade;

#[cfg(test)]
mod tests;

pub use candidates::TRIED_WEIGHTS_MAX;
pub use choose::{RankChoice, choose};
pub use costs::{BufferBounds, GatherCosts, RankCosts, RankRow, WeightCosts};
