//! The run file.

pub mod resolved;
pub use resolved::*;
