//! The processes of one start, and who started them: `mpirun`, where MPI connects them, or this process itself.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use pipezero_files::host::{JobSecret, Launcher, OwnFolder, cores, job_files};
use rustix::process::{Pid, Signal, kill_process};

use super::error::JobError;
use super::mpirun;
use super::parent::PARENT;
use super::processes::{Process, child, children_of};
use super::statuses::FOLDER_PREFIX;

/// What connects the processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedBy {
    /// MPI.
    Mpi,
    /// NCCL: each has a GPU, and they find each other by themselves.
    Nccl,
}

/// Processes that have been started.
#[derive(Debug)]
pub(super) enum Started {
    By(Mpirun),
    Here(Vec<Child>),
}

/// `mpirun`, and what its processes have on disk.
#[derive(Debug)]
pub(super) struct Mpirun {
    process: Child,
    /// With the segments by which they share memory.
    _shared_memory: Option<OwnFolder>,
}

impl Started {
    /// Starts so many processes of a program, which leave their statuses in this folder. They have a secret, unless the user has given them one.
    pub(super) fn new(
        connected_by: ConnectedBy,
        num_processes: usize,
        (program, arguments): (&Path, &[OsString]),
        statuses: &Path,
    ) -> Result<Self, JobError> {
        let secret = match JobSecret::of_environment() {
            Some(of_user) => of_user,
            None => {
                JobSecret::draw().map_err(|source| JobError::Io { what: "a secret for the job", source })?
            }
        };
        let start = |mut command: Command, launcher: Launcher| {
            // A shell that another launcher has started has its variables, by which each process would be one of another job.
            Launcher::variables_beside(launcher).for_each(|name| {
                command.env_remove(name);
            });
            command.env(cores::BIND, "1").env(job_files::FOLDER, statuses);
            command.env(JobSecret::VARIABLE, secret.value());
            // A Ctrl-C of the terminal reaches this process alone, which hands it on.
            command.env(PARENT, std::process::id().to_string()).process_group(0).spawn()
        };
        if connected_by == ConnectedBy::Mpi {
            // Where there is no room for them, MPI finds its own place.
            let shared_memory = || OwnFolder::within(Path::new("/dev/shm"), FOLDER_PREFIX).ok();
            let is_placed = std::env::var_os(mpirun::SHARED_MEMORY).is_some();
            let shared_memory = if is_placed { None } else { shared_memory() };
            let folders = mpirun::Folders {
                of_job: statuses,
                of_shared_memory: shared_memory.as_ref().map(OwnFolder::path),
            };
            let command = mpirun::command(num_processes, (program, arguments), folders);
            let process = start(command, Launcher::OpenMpi).map_err(JobError::NoMpirun)?;
            return Ok(Self::By(Mpirun { process, _shared_memory: shared_memory }));
        }
        let in_words = |source| JobError::Io { what: "a process of the job", source };
        let port = free_port().map_err(in_words)?;
        let mut children = Vec::new();
        for rank in 0..num_processes {
            let mut command = direct(program, num_processes, rank, port);
            command.args(arguments);
            match start(command, Launcher::Torchrun) {
                Ok(child) => children.push(child),
                Err(source) => {
                    Self::Here(children).kill();
                    return Err(in_words(source));
                }
            }
        }
        Ok(Self::Here(children))
    }

    /// Whether all of them have ended, and if so whether they were started: the status of an `mpirun` that ended otherwise than well.
    pub(super) fn end(&mut self) -> io::Result<Option<Result<(), ExitStatus>>> {
        let said = |status: ExitStatus| if status.success() { Ok(()) } else { Err(status) };
        match self {
            Self::By(mpirun) => Ok(mpirun.process.try_wait()?.map(said)),
            Self::Here(children) => {
                let ends =
                    children.iter_mut().map(Child::try_wait).collect::<io::Result<Option<Vec<_>>>>()?;
                Ok(ends.map(|_| Ok(())))
            }
        }
    }

    /// Those that have not ended, by rank.
    pub(super) fn processes(&mut self) -> Vec<Process> {
        match self {
            Self::By(mpirun) => children_of(mpirun.process.id(), Launcher::OpenMpi),
            Self::Here(children) => {
                let left = |(rank, started): (usize, &mut Child)| {
                    (!has_ended(started)).then(|| child(rank, started.id()))
                };
                children.iter_mut().enumerate().filter_map(left).collect()
            }
        }
    }

    /// Which have ended, by rank, as this process is told at once of those that it has started itself; `None` of those of `mpirun`.
    pub(super) fn ended(&mut self) -> Option<Vec<bool>> {
        match self {
            Self::By(_) => None,
            Self::Here(children) => Some(children.iter_mut().map(has_ended).collect()),
        }
    }

    /// Ends all of them, and `mpirun`.
    pub(super) fn kill(&mut self) {
        self.processes().into_iter().for_each(|process| process.signal(Signal::KILL));
        self.signal_starter(Signal::KILL);
        let children = match self {
            Self::By(mpirun) => std::slice::from_mut(&mut mpirun.process),
            Self::Here(children) => children.as_mut_slice(),
        };
        for child in children {
            let _ = child.wait();
        }
    }

    /// Sends `mpirun` a signal; its end is noticed at the next look.
    pub(super) fn signal_starter(&mut self, signal: Signal) {
        let Self::By(mpirun) = self else { return };
        // Once it has been waited for, its number may be another process's.
        if !has_ended(&mut mpirun.process)
            && let Some(pid) = Pid::from_raw(mpirun.process.id().cast_signed())
        {
            let _ = kill_process(pid, signal);
        }
    }
}

fn has_ended(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(_)))
}

/// The process of a rank, which knows its place from torchrun's variables.
fn direct(program: &Path, num_processes: usize, rank: usize, port: u16) -> Command {
    let mut command = Command::new(program);
    let [rank_name, size_name, local_rank_name, local_size_name] = Launcher::Torchrun.names();
    let [rank, size] = [rank, num_processes].map(|number| number.to_string());
    command.envs([
        (rank_name, &rank),
        (local_rank_name, &rank),
        (size_name, &size),
        (local_size_name, &size),
    ]);
    // The process of rank 0 listens on the port behind this one.
    command.env("MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string()).env("MASTER_PORT", (port - 1).to_string());
    command
}

/// A port of this host that nobody listens on.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
