//! The text form of programs: versioned, strict, and one text per program.
//!
//! ```text
//! pipezero-program 2
//! placement p0 p1
//! micro-batches 2
//! purpose training
//! weights sharded units 2 prefetch 1
//! reduction scatter-every
//! gather-after-step no
//! units 2
//!   u0 s0 bytes 64 reads F embedding
//!   u1 s1 bytes 64 reads FB head
//! row p0
//!   UNSHARD u0
//!   F u0 m0
//!   SEND s0>s1 m0
//!   ...
//! row p1
//!   ...
//! end
//! ```
//!
//! * `placement`: the rank of each stage. `purpose`: `training` or `evaluation`.
//! * `weights`: `replicated`, `sharded strict prefetch K`, `sharded units C prefetch K`,
//!   `sharded units-per-rank C0 C1 ... prefetch K` or `sharded all prefetch K`.
//! * `reduction`: `all-reduce-last`, `scatter-last` or `scatter-every`; and `in-turn` where each gradient is reduced before the next one is
//!   computed.
//! * A unit's line: its stage; its bytes when gathered; whether forward (`F`) and backward (`B`) read weights (`FB`, `F`,
//!   `B`, `none`); `untied`, `embedding` or `head`; and, where they apply, `persistent`, `whole` or
//!   `mixed persistent N whole M`, of whose weights N bytes persist and M are whole beside those that are gathered; `recomputes`; and
//!   `frozen`, or `frozen N` of N of the gathered bytes.
//! * A row: the rank's instructions in issue order, as [`crate::Instruction`] prints them.
//!
//! Strict means: keys in this order, one space between words, two before a unit or instruction, numbers in plain
//! decimal without leading zeros, a line feed after every line, nothing after `end`. So whatever parses prints as
//! the same text. Parsing proves the form only; [`crate::CheckedProgram`] proves the rest.

mod cursor;
mod error;
mod instruction;
mod parse;
mod words;
mod write;

pub use error::{ParseError, Problem};

#[cfg(test)]
mod tests;

/// The version that is written and read.
pub const VERSION: u32 = 2;
