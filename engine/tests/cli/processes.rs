//! Processes that a command starts, and signals to them.

use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long a job may take until it is given up.
const LONGEST: Duration = Duration::from_secs(120);

/// The ranks of a job whose launcher this is, or is a child of this, each with its process number. `variable` names their ranks.
pub(crate) fn ranks_of(parent: &Child, variable: &str) -> Vec<(usize, String)> {
    let children = |parent: &str| -> Vec<String> {
        let listed = Command::new("ps").args(["-o", "pid=", "--ppid", parent]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    let rank = |pid: String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let variables = environment.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let rank = variables
            .into_iter()
            .find_map(|line| line.strip_prefix(variable)?.strip_prefix('=')?.parse().ok())?;
        Some((rank, pid))
    };
    let near = children(&parent.id().to_string());
    let far: Vec<String> = near.iter().flat_map(|child| children(child)).collect();
    near.into_iter().chain(far).filter_map(rank).collect()
}

pub(crate) fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap().success());
}

/// Waits, for a bounded time, until something is there.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < LONGEST, "{what}");
        thread::yield_now();
    }
}
