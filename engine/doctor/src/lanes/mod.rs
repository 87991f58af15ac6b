//! Messages alone: every group and lane of a plan, with known contents and at several sizes, timed.
//!
//! ```text
//! lane      which groups and lanes the program uses        \
//! pattern   what messages hold, and what has to arrive      +-> exercise: one lane, one size, one rank
//! ranks     in which order ranks use them, and for how long /
//! look      all processes' ranks -> found: a row for each kind -> rules: what is right
//! ```
//!
//! They are used on the run's own kind of world, but without its program: that of a step would find a wrong sum too, and not say where.

mod exercise;
mod found;
mod lane;
mod look;
mod pattern;
mod ranks;
mod rules;
#[cfg(test)]
mod tests;

pub use self::found::LaneFacts;
pub(super) use self::look::look;
pub(super) use self::rules::judge;
