//! Compute orders as PyTorch's pipelining CSV, in and out.
//!
//! The compute-only form that `_PipelineScheduleRuntime` of `torch.distributed.pipelining` dumps and loads: a row per
//! rank, a cell per action, `0F0` for the forward of stage 0 and micro-batch 0, then `B` or `I` and `W`; an empty cell
//! is a step in which the rank idles, and does not change the order.
//!
//! ```text
//! 0F0,0F1,,,0B0,,0B1
//! ,1F0,1B0,1F1,,1B1,
//! ```
//!
//! The placement is read off the rows: a stage lies on the rank in whose row it stands.

mod action;
mod cells;
mod complete;
mod error;
mod feasible;
mod parse;
mod write;

pub use cells::csv_place;
pub use error::{CsvError, CsvPlace, CsvRule, CsvSite, CsvWait};

#[cfg(test)]
mod tests;
