//! Pictures of orders, programs and timelines, as text.

mod chrome;
mod explain;
mod grid;
mod json;
mod lanes;
mod list;
mod scale;
mod svg;
mod time_grid;
mod timing;

pub use chrome::{Track, chrome};
pub use explain::explain;
pub use grid::{computes, order, program};
pub use list::instructions;
pub use scale::TimeScale;
pub use svg::{Gantt, Shown, svg};
pub use time_grid::time_grid;

#[cfg(test)]
mod tests;
