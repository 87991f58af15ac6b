//! ZeRO-3 beside ZeRO-1 on the same grid and split, rank by rank: whether what is gathered and sent buys memory.
//!
//! Both are planned, program and all. ZeRO-3 counts with `1 + prefetch_units` gathered units, which it needs at least: what a run keeps
//! resident beyond them is room that it was given. `"strict"`, which has no more, is compared as it is: it gathers more often.

mod compare;
mod rank;
mod remedy;

#[cfg(test)]
mod tests;

pub use rank::BesideZero1;
