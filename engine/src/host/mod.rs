//! The memory of this host, all of it and what is left, and what of it this process occupies.

mod memory;

pub(crate) use memory::{available_bytes, memory_bytes, resident_bytes};
