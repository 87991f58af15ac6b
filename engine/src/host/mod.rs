//! What this host has.

mod memory;

pub(crate) use memory::{available_bytes, memory_bytes, resident_bytes};
