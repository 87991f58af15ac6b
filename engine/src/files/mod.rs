//! Files that users name: read up to a size limit, written completely or not at all, and JSON with the places of mistakes.

pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod order;
pub(crate) mod partial;
pub(crate) mod printable;
pub(crate) mod safetensors;
pub(crate) mod strangers;
