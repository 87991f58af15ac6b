//! The limits that the system sets to this process, as `ulimit` shows them: a row for each, with how it is read and the command that raises it.
//!
//! Each process reads them for itself, since the processes of a job have the limits of what started them. Only what bounds this process in
//! fact is a limit: no address space where there is none, and no number of threads for the superuser, whom the kernel exempts.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

use super::control_groups;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All memory that is mapped, used or not.
    AddressSpace,
    /// Memory that is written to and belongs to no file.
    Data,
    /// The longest file that can be written.
    FileSize,
    /// Files and connections that are open at once.
    OpenFiles,
    /// Threads of this user.
    Threads,
    /// Threads of the control group.
    GroupThreads,
    /// The first thread's stack.
    Stack,
    /// Seconds of all cores together.
    ProcessorTime,
}

/// A limit's row.
struct Row {
    limit: Limit,
    name: &'static str,
    /// Numbers are bytes.
    is_bytes: bool,
    command: &'static str,
    /// The limit, if there is one.
    read: fn() -> Option<u64>,
    /// How much of it this process uses.
    used: fn() -> u64,
}

const ROWS: [Row; 8] = [
    Row {
        limit: Limit::AddressSpace,
        name: "address space",
        is_bytes: true,
        command: "`ulimit -v unlimited`, or ask the batch system for more (h_vmem, vmem)",
        read: || soft(Resource::As),
        used: || status_bytes("VmSize:"),
    },
    Row {
        limit: Limit::Data,
        name: "data",
        is_bytes: true,
        command: "`ulimit -d unlimited`",
        read: || soft(Resource::Data),
        used: || status_bytes("VmData:"),
    },
    Row {
        limit: Limit::FileSize,
        name: "the size of a file",
        is_bytes: true,
        command: "`ulimit -f unlimited`",
        read: || soft(Resource::Fsize),
        used: || 0,
    },
    Row {
        limit: Limit::OpenFiles,
        name: "open files",
        is_bytes: false,
        command: "`ulimit -n 65536`",
        read: || soft(Resource::Nofile),
        used: || fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
    },
    Row {
        limit: Limit::Threads,
        name: "threads of this user",
        is_bytes: false,
        command: "`ulimit -u unlimited`",
        read: || soft(Resource::Nproc).filter(|_| !getuid().is_root()),
        used: || threads_of_user(getuid().as_raw()),
    },
    Row {
        limit: Limit::GroupThreads,
        name: "threads of the control group (pids.max)",
        is_bytes: false,
        command: "a larger `pids.max`, such as `docker run --pids-limit -1` or systemd's `TasksMax=infinity`",
        read: || group_threads().map(|(max, _)| max),
        used: || group_threads().map_or(0, |(_, used)| used),
    },
    Row {
        limit: Limit::Stack,
        name: "the stack",
        is_bytes: true,
        command: "`ulimit -s 8192`",
        read: || soft(Resource::Stack),
        used: || 0,
    },
    Row {
        limit: Limit::ProcessorTime,
        name: "seconds of processor time",
        is_bytes: false,
        command: "`ulimit -t unlimited`",
        read: || getrlimit(Resource::Cpu).maximum,
        used: || 0,
    },
];

/// A limit that a process needs more than is left of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitError {
    /// Which it is.
    pub limit: Limit,
    /// Its value.
    pub max: u64,
    /// How much the process uses already.
    pub used: u64,
    /// How much more it needs.
    pub needed: u64,
}

impl Limit {
    /// Its value, where this process has one.
    pub fn value(self) -> Option<u64> {
        (self.row().read)()
    }

    /// The command that raises it.
    pub fn command(self) -> &'static str {
        self.row().command
    }

    /// Refuses what is more than is left of it.
    ///
    /// # Errors
    /// [`LimitError`].
    pub fn check(self, needed: u64) -> Result<(), LimitError> {
        let Some(max) = self.value() else { return Ok(()) };
        let used = (self.row().used)();
        if used.saturating_add(needed) <= max {
            return Ok(());
        }
        Err(LimitError { limit: self, max, used, needed })
    }

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.limit == self).expect("every limit has a row")
    }
}

/// Makes the system say that processor time is nearly used up, a tenth of the limit before it kills the process: where both are one number, as
/// `ulimit -t` has it, it kills without a word. Returns whether there is such a limit.
pub fn signal_before_processor_time_ends() -> bool {
    let limits = getrlimit(Resource::Cpu);
    let Some(hard) = limits.maximum else { return limits.current.is_some() };
    let early = hard.saturating_sub((hard / 10).max(1)).max(1);
    let current = limits.current.map_or(early, |soft| soft.min(early));
    setrlimit(Resource::Cpu, Rlimit { current: Some(current), ..limits }).is_ok() || limits.current.is_some()
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, is_bytes, command, .. } = self.limit.row();
        let shown = |number: u64| if *is_bytes { bytes(number) } else { number.to_string() };
        write!(f, "the run needs {}", shown(self.needed))?;
        if self.used > 0 {
            write!(f, " beside the {} that this process has in use", shown(self.used))?;
        }
        write!(f, ", and its limit of {name} is {}: raise it with {command}", shown(self.max))
    }
}

impl std::error::Error for LimitError {}

/// In KiB, as `ulimit` shows them, or in MiB.
fn bytes(number: u64) -> String {
    const MIB: f64 = (1 << 20) as f64;
    if number < 10 << 20 {
        format!("{} KiB", number.div_ceil(1024))
    } else {
        format!("{:.0} MiB", number as f64 / MIB)
    }
}

fn soft(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

fn status_bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    super::memory::bytes_of_line(&status, key).unwrap_or(0)
}

/// Threads of all processes of a user that can be seen.
fn threads_of_user(user: u32) -> u64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let threads = processes.flatten().filter_map(|process| {
        let status = fs::read_to_string(process.path().join("status")).ok()?;
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let own: u32 = line("Uid:")?.split_whitespace().next()?.parse().ok()?;
        (own == user).then(|| line("Threads:")?.trim().parse::<u64>().ok()).flatten()
    });
    threads.sum()
}

/// The limit of threads of this process's control groups of which least is left, and what is used of it.
fn group_threads() -> Option<(u64, u64)> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = control_groups::folders("pids").into_iter().filter_map(|(_, folder)| {
        // "max" is no number.
        Some((number(&folder.join("pids.max"))?, number(&folder.join("pids.current"))?))
    });
    limits.min_by_key(|(max, used)| max.saturating_sub(*used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_one_row() {
        let limits = [
            Limit::AddressSpace,
            Limit::Data,
            Limit::FileSize,
            Limit::OpenFiles,
            Limit::Threads,
            Limit::GroupThreads,
            Limit::Stack,
            Limit::ProcessorTime,
        ];
        for limit in limits {
            assert_eq!(ROWS.iter().filter(|row| row.limit == limit).count(), 1, "{limit:?}");
        }
        assert_eq!(ROWS.len(), limits.len());
    }

    #[test]
    fn an_error_names_the_limit_its_value_the_need_and_the_command() {
        let space =
            LimitError { limit: Limit::AddressSpace, max: 400_000 << 10, used: 90 << 20, needed: 600 << 20 };
        let text = "the run needs 600 MiB beside the 90 MiB that this process has in use, and its limit of address space is 391 MiB: raise \
                    it with `ulimit -v unlimited`, or ask the batch system for more (h_vmem, vmem)";
        assert_eq!(space.to_string(), text);
        let file = LimitError { limit: Limit::FileSize, max: 1024, used: 0, needed: 70 << 10 };
        let text = "the run needs 70 KiB, and its limit of the size of a file is 1 KiB: raise it with `ulimit -f unlimited`";
        assert_eq!(file.to_string(), text);
    }

    #[test]
    fn what_is_left_is_enough_and_one_more_is_not() {
        let Some(max) = Limit::OpenFiles.value() else { return };
        assert!(Limit::OpenFiles.check(1).is_ok());
        let error = Limit::OpenFiles.check(max).unwrap_err();
        assert!(error.used > 0 && error.max == max, "{error:?}");
    }

    #[test]
    fn this_process_is_among_the_threads_of_its_user() {
        assert!(!Path::new("/proc/self/status").exists() || threads_of_user(getuid().as_raw()) > 0);
    }
}
