//! Clusters against the simulator of one data rank, closed forms and a naive simulation tick by tick.

mod against_naive;
mod alike;
mod draw;
mod errors;
mod naive;
mod sharing;
mod unlike;
