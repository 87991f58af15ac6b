//! Why processes cannot be started.

use pipezero_files::host::LauncherError;

/// Why a job cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No process at all.
    #[error("-n 0: a job has at least one process")]
    NoProcess,
    /// Nothing to go on from.
    #[error(
        "--max-restarts {max_restarts}, but the command does not say --resume: each restart would begin with step 1, or refuse to overwrite the run; \
         add --resume, which begins with step 1 if there is no checkpoint"
    )]
    NotResumed {
        /// How many.
        max_restarts: u32,
    },
    /// A job within a job.
    #[error("{launcher} has started this process: start `pipezero launch` alone, or the command without it")]
    Launched {
        /// The program that started it.
        launcher: String,
    },
    /// Variables of a launcher contradict each other.
    #[error(
        "`pipezero launch` is a launcher itself, and the environment has variables of another, which it cannot read ({0}): unset them"
    )]
    Variables(#[from] LauncherError),
    /// The system does not start `mpirun`.
    #[error(
        "mpirun cannot be started: {0}; install Open MPI (on Debian engine/mpi.sh does), or add its folder to PATH"
    )]
    NoMpirun(std::io::Error),
    /// `mpirun` ended before any process had begun.
    #[error("mpirun has started no process ({0}), and says why above")]
    NotStarted(std::process::ExitStatus),
    /// The system refuses something.
    #[error("{what}: {source}")]
    Io {
        /// What.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}
