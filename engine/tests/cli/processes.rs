//! Processes that a command starts, and signals to them.

use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

#[cfg(feature = "mpi")]
use crate::command::{Home, Printed};

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

/// Kills a rank of a job over MPI once each of these engines has written a checkpoint below `out`: the job starts again, and ends well.
#[cfg(feature = "mpi")]
pub(crate) fn restarted_without(home: &Home, child: Child, (out, engines): (&str, &[&str]), killed: usize) {
    until("all engines write checkpoints", || {
        let has_one = |engine: &&str| {
            let entries = fs::read_dir(home.path(&format!("{out}/{engine}/checkpoints"))).ok();
            entries.is_some_and(|entries| {
                entries.flatten().any(|entry| entry.path().join("manifest.json").exists())
            })
        };
        engines.iter().all(has_one).then_some(())
    });
    let (_, pid) = until("all ranks run", || {
        ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|(rank, _)| *rank == killed)
    });
    signal("KILL", &pid);
    let printed = Printed::new(child.wait_with_output().unwrap(), &home.path(""));
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    let said = [format!("rank {killed} was killed"), "; restart 1 of 1".to_owned()];
    assert!(said.iter().all(|said| printed.stderr.contains(said)), "{}", printed.stderr);
}
