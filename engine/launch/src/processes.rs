//! The processes of a job on this host, as the system lists them.

use std::{fs, str};

use pipezero_files::host::Launcher;
use rustix::process::{Pid, Signal, kill_process};

/// A process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) rank: usize,
    pid: i32,
    /// Whether a signal has stopped it, as SIGSTOP does.
    pub(super) is_frozen: bool,
}

impl Process {
    /// The same process, whether or not it is frozen.
    pub(super) fn thawed(self) -> Self {
        Self { is_frozen: false, ..self }
    }

    /// Sends it a signal; it may have ended meanwhile.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Those that a process has started with a launcher's variables and that have not ended, by rank; empty where the system does not list processes (any
/// but Linux).
pub(super) fn children_of(parent: u32, launcher: Launcher) -> Vec<Process> {
    let [rank_name, ..] = launcher.names();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut children: Vec<Process> = pids.filter_map(|pid| child_with(pid, parent, rank_name)).collect();
    children.sort_by_key(|process| process.rank);
    children
}

/// A process of this rank that this one has started and has not yet been told to have ended.
pub(super) fn child(rank: usize, pid: u32) -> Process {
    let pid = pid.cast_signed();
    let state = state_and_parent_of(pid).map(|(state, _)| state);
    Process { rank, pid, is_frozen: state.is_some_and(is_frozen) }
}

fn child_with(pid: i32, parent: u32, rank_name: &str) -> Option<Process> {
    let (state, of_parent) = state_and_parent_of(pid)?;
    // One that has ended stays in the list until its parent has asked how.
    if of_parent != parent || state == 'Z' {
        return None;
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(Process { rank: rank_in(&environment, rank_name)?, pid, is_frozen: is_frozen(state) })
}

fn is_frozen(state: char) -> bool {
    matches!(state, 'T' | 't')
}

fn state_and_parent_of(pid: i32) -> Option<(char, u32)> {
    state_and_parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Of a line as `7 (name) S 3 ...`, where the name may have spaces and brackets.
fn state_and_parent(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn rank_in(environment: &[u8], name: &str) -> Option<usize> {
    let mut variables = environment.split(|&byte| byte == 0).filter_map(|line| str::from_utf8(line).ok());
    variables.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
}

/// A process of this rank that nobody signals.
#[cfg(test)]
pub(super) fn of_rank(rank: usize) -> Process {
    Process { rank, pid: 0, is_frozen: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_parent_and_rank_are_read_from_what_the_system_lists() {
        assert_eq!(state_and_parent("7 (a b) (c)) T 31 7 7 0"), Some(('T', 31)));
        assert_eq!(state_and_parent("7 (a"), None);
        assert_eq!(rank_in(b"A=1\0RANK=12\0B=2\0", "RANK"), Some(12));
        assert_eq!(rank_in(b"XRANK=12\0RANKS=3\0", "RANK"), None);
    }

    #[test]
    fn a_child_without_a_rank_is_no_process_of_the_job() {
        let start = |rank: Option<&str>| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env_remove("OMPI_COMM_WORLD_RANK");
            rank.map(|rank| command.env("OMPI_COMM_WORLD_RANK", rank));
            command.spawn().unwrap()
        };
        let mut started = [start(None), start(Some("3"))];
        // The environment is that of the new program once it has begun.
        let mut found = Vec::new();
        for _ in 0..1000 {
            found = children_of(std::process::id(), Launcher::OpenMpi);
            found.retain(|process| started.iter().any(|child| child.id() == process.pid as u32));
            if !found.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        let ranks: Vec<usize> = found.iter().map(|process| process.rank).collect();
        found.iter().for_each(|process| process.signal(Signal::KILL));
        started[0].kill().unwrap();
        assert!(started.iter_mut().all(|child| !child.wait().unwrap().success()));
        assert_eq!(ranks, [3]);
    }
}
