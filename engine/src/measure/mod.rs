//! What happened: instructions and messages as they were recorded, what they cost, and how a prediction compares.

pub mod profile;
pub mod trace;
