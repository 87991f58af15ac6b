//! Files that users name: read up to a size limit, written completely or not at all, and JSON with the places of mistakes.

pub mod host;
pub mod input;
pub mod json;
pub mod partial;
pub mod printable;
pub mod safetensors;
pub mod unknown_files;
