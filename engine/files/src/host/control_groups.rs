//! The control groups that this process is in.

use std::fs;
use std::path::{Path, PathBuf};

/// A version of Linux's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// The folders of the groups of this process for a controller, from its own up to the root. Inside a container the path of the own group may not be
/// visible; then the root's files, which are the container's, still are.
pub(super) fn folders(controller: &str) -> Vec<(Version, PathBuf)> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for (version, path) in own.lines().filter_map(|line| version_and_path(line, controller)) {
        let all = Path::new("/sys/fs/cgroup");
        let root = if version == Version::One { all.join(controller) } else { all.to_owned() };
        let folder = root.join(path.trim_start_matches('/'));
        let within = folder.ancestors().take_while(|folder| folder.starts_with(&root));
        found.extend(within.map(|folder| (version, folder.to_owned())));
    }
    found
}

/// The version and the group's path in a line of `/proc/self/cgroup`, if the line is about a controller.
fn version_and_path<'a>(line: &'a str, controller: &str) -> Option<(Version, &'a str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        return Some((Version::Two, path));
    }
    controllers.split(',').any(|found| found == controller).then_some((Version::One, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found() {
        let found = |line| version_and_path(line, "memory");
        assert_eq!(found("0::/user.slice/run"), Some((Version::Two, "/user.slice/run")));
        assert_eq!(found("9:cpu,memory:/docker/ab"), Some((Version::One, "/docker/ab")));
        assert_eq!(found("3:cpu,cpuacct:/docker/ab"), None);
        assert_eq!(found("what"), None);
    }
}
