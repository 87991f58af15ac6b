//! Pictures of orders, programs and timelines, as text.

mod chrome;
mod grid;
mod json;
mod lanes;
mod list;
mod timing;
mod words;

pub use chrome::{Track, chrome};
pub use grid::{order, program};
pub use list::instructions;
pub use timing::idle_share;

#[cfg(test)]
mod tests;
