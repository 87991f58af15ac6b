//! Which program this process runs.

use std::sync::OnceLock;
use std::{env, fs};

use xxhash_rust::xxh3::xxh3_64;

/// Its name, its version and a checksum of its file: two builds of one version may compute other bits. The file is read once, as it may be replaced
/// while this process runs.
pub(super) fn name_of_this() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let file = env::current_exe().and_then(fs::read);
        let checksum =
            file.map_or_else(|_| "unknown".to_owned(), |bytes| format!("{:08x}", xxh3_64(&bytes) >> 32));
        format!("pipezero {} (checksum of its file {checksum})", env!("CARGO_PKG_VERSION"))
    })
    .clone()
}
