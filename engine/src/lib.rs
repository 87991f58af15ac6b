//! stub

pub mod data;
