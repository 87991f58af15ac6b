//! What is left on a disk.

use std::path::Path;

use rustix::fs::StatVfs;

/// Bytes that this user may still write where a path is, or will be; `None` where the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let disk = disk_of(path)?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Files that this user may still make where a path is, or will be; `None` where the disk does not count them.
pub fn free_files(path: &Path) -> Option<u64> {
    let disk = disk_of(path)?;
    (disk.f_files > 0).then_some(disk.f_favail)
}

fn disk_of(path: &Path) -> Option<StatVfs> {
    let folders =
        path.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let found = folders.into_iter().find(|folder| folder.exists())?;
    rustix::fs::statvfs(found).ok()
}
