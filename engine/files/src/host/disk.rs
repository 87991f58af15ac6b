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
    rustix::fs::statvfs(folder_of(path)?).ok()
}

/// File systems of this host alone, by the numbers that `statfs` gives them (linux/magic.h): ext4, XFS, btrfs, tmpfs, overlayfs, ramfs, ZFS, F2FS.
const LOCAL: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x8584_58F6, 0x2FC1_2FC1, 0xF2F5_2010];

/// Whether a path is, or will be, on a disk that other hosts may see too. Such disks may show late what another host has written.
pub fn may_be_shared(path: &Path) -> bool {
    let kind =
        folder_of(path).and_then(|folder| rustix::fs::statfs(folder).ok()).map(|disk| disk.f_type as u64);
    kind.is_none_or(|kind| !LOCAL.contains(&(kind & 0xFFFF_FFFF)))
}

/// The folder in which a path is, or will be, as far as there is one.
fn folder_of(path: &Path) -> Option<&Path> {
    let mut folders =
        path.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    folders.find(|folder| folder.exists())
}
