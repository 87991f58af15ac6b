//! Which program this process runs.

use std::{env, fs};

use xxhash_rust::xxh3::xxh3_64;

/// Its name, its version and a checksum of its file: two builds of one version may compute other bits.
pub(super) fn name_of_this() -> String {
    let file = env::current_exe().and_then(fs::read);
    let checksum =
        file.map_or_else(|_| "unknown".to_owned(), |bytes| format!("{:08x}", xxh3_64(&bytes) >> 32));
    format!("pipezero {} (checksum of its file {checksum})", env!("CARGO_PKG_VERSION"))
}
