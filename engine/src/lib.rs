//! pipezero trains GPT-style models on DP x PP grids with ZeRO, from one JSON file.

pub mod config;
