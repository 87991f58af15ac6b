//! Combinations of ZeRO and pipeline that cost more than they gain: what is refused, with its price beside what is
//! allowed, counted from planned programs.

mod costs_of_zero_2;
mod lone_unit;
mod price;
mod zero_2_ranks;

#[cfg(test)]
mod tests;

pub(super) use costs_of_zero_2::costs_of_zero_2;
pub(super) use price::as_zero_1;
