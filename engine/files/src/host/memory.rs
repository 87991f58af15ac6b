//! What the system has for this process, and what of it is left: the host's memory, or less where a control group bounds it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::control_groups::{self, Version};

/// Bytes that can be allocated without swapping; `None` where the system does not report it (any but Linux).
pub fn available_bytes() -> Option<u64> {
    // The kernel's own estimate, page cache that can be dropped included.
    least(from_meminfo("MemAvailable:")?, GroupFiles::left)
}

/// Memory that processes share: that of their host, or the part of it that their control group may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLeft {
    /// The same text in processes that share the memory, unless they are in containers of other names, and in no other process.
    pub identity: String,
    /// The folder of the control group; `None` for the host's own memory.
    pub group: Option<PathBuf>,
    /// Bytes that can be allocated without swapping.
    pub bytes: u64,
}

/// The memory left on the host, and in each control group with a limit that bounds this process. Empty where the system does not report it (any but Linux).
pub fn memories_left() -> Vec<MemoryLeft> {
    let Some(bytes) = from_meminfo("MemAvailable:") else { return Vec::new() };
    // It tells hosts of one name apart. The name is added since containers of one host may see different figures; those that see the same are then not
    // added up.
    let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return Vec::new() };
    let (kernel, name) = (kernel.trim(), super::name());
    let of_host = MemoryLeft { identity: format!("{kernel} {name}"), group: None, bytes };
    let of_group = |(version, folder, bytes): (Version, PathBuf, u64)| {
        // Containers see groups of their own under the same path, but the kernel numbers all groups.
        let number = fs::metadata(&folder).ok()?.ino();
        let identity = format!("{kernel} {version:?} {number}");
        Some(MemoryLeft { identity, group: Some(folder), bytes })
    };
    std::iter::once(of_host).chain(groups(GroupFiles::left).filter_map(of_group)).collect()
}

/// Bytes that this host has, used or not; `None` where the system does not report it (any but Linux).
pub fn memory_bytes() -> Option<u64> {
    least(from_meminfo("MemTotal:")?, GroupFiles::limit)
}

/// Bytes of this process that lie in memory and belong to no file; `None` where the system does not report it (any but Linux).
pub fn resident_bytes() -> Option<u64> {
    bytes_of_line(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// What the host has, or less where one of the groups of this process has less.
fn least(host: u64, of_group: impl Fn(&GroupFiles, &Path) -> Option<u64>) -> Option<u64> {
    Some(groups(of_group).map(|(_, _, bytes)| bytes).fold(host, u64::min))
}

fn from_meminfo(key: &str) -> Option<u64> {
    bytes_of_line(&fs::read_to_string("/proc/meminfo").ok()?, key)
}

/// The figure of a line of a file under `/proc`, given there in KiB.
pub(super) fn bytes_of_line(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Each control group that this process is in, from its own up to the root, with its folder and such a figure of it.
fn groups(
    bytes: impl Fn(&GroupFiles, &Path) -> Option<u64>,
) -> impl Iterator<Item = (Version, PathBuf, u64)> {
    let files = |version| if version == Version::One { &VERSION_1 } else { &VERSION_2 };
    let folders = control_groups::folders("memory").into_iter();
    folders.filter_map(move |(version, folder)| {
        let bytes = bytes(files(version), &folder)?;
        Some((version, folder, bytes))
    })
}

/// The files of a version of Linux's control groups.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// The lines of `memory.stat` with what the kernel drops when a process of the group needs memory: pages of files, and what it remembers of
    /// their names.
    droppable: &'static [&'static str],
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: &["total_inactive_file", "total_active_file"],
};
const VERSION_2: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    droppable: &["inactive_file", "active_file", "slab_reclaimable"],
};

impl GroupFiles {
    fn limit(&self, folder: &Path) -> Option<u64> {
        limit(&fs::read_to_string(folder.join(self.limit)).ok()?)
    }

    fn left(&self, folder: &Path) -> Option<u64> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let stat = read("memory.stat").unwrap_or_default();
        left_in_group(&read(self.limit)?, &read(self.used)?, &stat, self.droppable)
    }
}

/// A limit that is not a number (`max`) bounds nothing.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Limit minus use, in which page cache that can be dropped does not count.
fn left_in_group(limit: &str, used: &str, stat: &str, droppable: &[&str]) -> Option<u64> {
    let limit = self::limit(limit)?;
    let used: u64 = used.trim().parse().ok()?;
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let found = lines.filter(|(key, _)| droppable.contains(key));
    let bytes = found.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok());
    let droppable = bytes.fold(0, u64::saturating_add);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_reports_kibibytes() {
        let text = "MemTotal:       24684096 kB\nMemFree:        100 kB\nMemAvailable:   23585188 kB\nBuffers: 1 kB\n";
        assert_eq!(bytes_of_line(text, "MemAvailable:"), Some(23_585_188 * 1024));
        assert_eq!(bytes_of_line(text, "MemTotal:"), Some(24_684_096 * 1024));
        assert_eq!(bytes_of_line("MemTotal: 1 kB\n", "MemAvailable:"), None);
        assert_eq!(bytes_of_line("MemAvailable: lots\n", "MemAvailable:"), None);
    }

    #[test]
    fn what_is_allocated_and_written_is_resident() {
        let Some(before) = resident_bytes() else { return };
        let written = vec![1_u8; 64 << 20];
        let grown = resident_bytes().unwrap() - before;
        // Other tests of this process allocate and free meanwhile.
        assert!(grown >= 32 << 20, "{grown} of {} bytes", written.len());
    }

    #[test]
    fn a_host_has_more_than_is_left() {
        let (has, left) = (memory_bytes(), available_bytes());
        assert_eq!(has.is_some(), left.is_some());
        assert!(has >= left, "{has:?}, {left:?}");
    }

    /// The host's comes first, each is another one, and a second look finds the same ones.
    #[test]
    fn memories_are_known_again() {
        let identities = |left: &[MemoryLeft]| left.iter().map(|of| of.identity.clone()).collect::<Vec<_>>();
        let (left, again) = (memories_left(), memories_left());
        assert_eq!(left.is_empty(), available_bytes().is_none());
        assert_eq!(identities(&left), identities(&again));
        assert!(left.iter().enumerate().all(|(place, of)| of.group.is_none() == (place == 0)), "{left:?}");
        let different: std::collections::BTreeSet<_> = identities(&left).into_iter().collect();
        assert_eq!(different.len(), left.len(), "{left:?}");
    }

    #[test]
    fn a_group_leaves_what_it_does_not_use_or_could_drop() {
        let left = |limit, used, stat| left_in_group(limit, used, stat, VERSION_2.droppable);
        assert_eq!(left("1000\n", "300\n", ""), Some(700));
        assert_eq!(left("1000\n", "300\n", "anon 5\ninactive_file 200\n"), Some(900));
        assert_eq!(
            left("1000\n", "900\n", "inactive_file 200\nactive_file 100\nslab_reclaimable 50\n"),
            Some(450)
        );
        assert_eq!(left("1000\n", "1300\n", "shmem 200\nactive_file 100\n"), Some(0));
        assert_eq!(left("max\n", "300\n", ""), None);
    }
}
