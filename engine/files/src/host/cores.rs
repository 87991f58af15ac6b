//! The cores that a process may compute on.

use std::path::Path;
use std::{fs, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::launcher::{LaunchedProcess, Launcher, Local};

/// Set by `pipezero launch`, whose processes nobody binds: each then binds itself to an equal part of the cores, chosen by its place on the host.
pub const BIND: &str = "PIPEZERO_BIND";

/// Cores for the ranks of this process, at least 1: its share of those that it may use together with other processes of its job.
pub fn of_process(launched: Option<&LaunchedProcess>) -> usize {
    // Less than the cores that it is bound to where a control group gives its processes together the time of fewer.
    let quota = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let Some(LaunchedProcess { launcher, local: Some(local), .. }) = launched else { return quota };
    let allowed = allowed_cores().map_or(quota, |cores| cores.len());
    let of_job = match launcher {
        // Its daemon is not bound to the job's cores.
        Launcher::Slurm => std::env::var("SLURM_CPUS_ON_NODE").ok().and_then(|text| text.trim().parse().ok()),
        _ => of_parent(),
    };
    let own = share(allowed, of_job.unwrap_or(allowed), local.size);
    if quota < allowed { own.min(share(quota, quota, local.size)) } else { own }
}

/// The cores that this process is bound to; `None` where the system does not say.
fn allowed_cores() -> Option<Vec<usize>> {
    let allowed = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

/// A process's share of the cores that it may use, where `of_job` are those that `num_processes` may use together. Launchers bind each process to
/// some cores of its own, or to a socket that it shares with others, or not at all.
fn share(allowed: usize, of_job: usize, num_processes: usize) -> usize {
    let num_sharing = (num_processes * allowed).div_ceil(of_job.max(1)).clamp(1, num_processes.max(1));
    (allowed / num_sharing).max(1)
}

/// Cores that the process may use that has started this one; `None` where the system does not say (any but Linux).
fn of_parent() -> Option<usize> {
    let parent = std::os::unix::process::parent_id();
    let status = fs::read_to_string(format!("/proc/{parent}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    let ones = mask.trim().chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones);
    Some(ones.sum::<u32>() as usize)
}

/// Binds this process, before it starts any thread, to its share of the cores that it may use: with more processes than cores to none.
pub fn bind(local: Local) {
    let Some(mut cores) = allowed_cores() else { return };
    // Hardware threads of one core go to one process.
    cores.sort_by_key(|&core| (first_sibling(core), core));
    let num_cores = cores.len() / local.size;
    if num_cores == 0 {
        return;
    }
    let mut own = CpuSet::new();
    cores[local.rank * num_cores..][..num_cores].iter().for_each(|&core| own.set(core));
    if let Err(error) = sched_setaffinity(None, &own) {
        tracing::debug!(%error, "this process is not bound to cores");
    }
}

/// The first of the hardware threads that share a core with this one.
fn first_sibling(cpu: usize) -> usize {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = fs::read_to_string(Path::new(&path)).unwrap_or_default();
    let first = list.trim().split([',', '-']).next().and_then(|first| first.parse().ok());
    first.unwrap_or(cpu)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn cores_are_shared_by_the_processes_that_may_use_them() {
        for (allowed, of_job, num_processes, expected) in [
            // Not bound: all may use all.
            (32, 32, 8, 4),
            (2, 2, 4, 1),
            (7, 7, 2, 3),
            // Each is bound to cores of its own.
            (4, 32, 8, 4),
            (1, 32, 8, 1),
            (1, 2, 2, 1),
            // Four are bound to each of two sockets.
            (16, 32, 8, 4),
            (16, 32, 3, 8),
            // A system that does not say what others have.
            (8, 0, 2, 4),
            (8, 8, 1, 8),
        ] {
            assert_eq!(
                share(allowed, of_job, num_processes),
                expected,
                "{allowed} of {of_job} for {num_processes}"
            );
        }
    }
}
