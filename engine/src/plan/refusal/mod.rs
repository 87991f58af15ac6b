//! Combinations of ZeRO and pipeline that cost more than they gain: what is refused, with its price beside what is
//! allowed, counted from planned programs.

mod error;
mod lone_unit;
mod price;
mod zero_2;

#[cfg(test)]
mod tests;

pub use error::LoneUnit;
pub(super) use zero_2::costs_of_zero_2;
