//! Pictures of orders and programs, as text.

mod grid;
mod list;
mod timing;

pub use grid::{order, program};
pub use list::instructions;

#[cfg(test)]
mod tests;
