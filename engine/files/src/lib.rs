//! Files that users name, read up to a size limit and written completely or not at all; JSON with the place of each mistake; and this host: its
//! cores, memory and disk, and the launcher that started this process (`host`).

pub mod folder;
pub mod host;
pub mod input;
pub mod json;
pub mod made_by;
pub mod opened;
pub mod partial;
pub mod printable;
pub mod records;
pub mod safetensors;
pub mod text;
pub mod unknown_files;
