//! Pictures of orders and programs, as text.

mod grid;
mod list;
mod timing;

pub use grid::{order, program};
pub use list::instructions;
pub use timing::idle_share;

#[cfg(test)]
mod tests;
