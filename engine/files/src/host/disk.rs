//! What is left on a disk.

use std::path::Path;

/// Bytes that this user may still write where a path is, or will be; `None` where the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let folders =
        path.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let found = folders.into_iter().find(|folder| folder.exists())?;
    let disk = rustix::fs::statvfs(found).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
