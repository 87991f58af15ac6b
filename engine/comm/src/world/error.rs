//! Why there is no world.

use pipezero_files::host::LauncherError;
use pipezero_models::queue::{NoCuda, NoNccl};

use super::hosts::OtherHosts;
use super::not_joined::NotJoined;
use crate::TooManyLanes;

/// Why there is no world for a plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorldError {
    /// The processes of a job cannot be connected.
    #[error("the processes of this job cannot be connected: {reason}")]
    NotConnected {
        /// Why.
        reason: String,
    },
    /// The process of rank 0 cannot be reached.
    #[error("the process of rank 0 cannot listen for the others, and says why")]
    SaidByFirst,
    /// While processes connected, another has stopped them.
    #[error("another process of this job has failed, and says why")]
    SaidByAnother,
    /// The launcher's variables do not say which rank this process is.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// MPI knows of other processes than the launcher.
    #[error(
        "{launcher} started {launched} processes, but MPI connects {connected}: with `comm.backend` \"mpi\" start them by `pipezero launch`, by the \
         mpirun of the MPI library that pipezero was built with, or by srun --mpi=pmix"
    )]
    OtherSize {
        /// The program that started them.
        launcher: String,
        /// How many.
        launched: usize,
        /// How many MPI knows of.
        connected: usize,
    },
    /// MPI gives this process another rank than the launcher.
    #[error(
        "by {launcher}'s variables this process is rank {launched}, and MPI says that it is rank {connected}: unset the variables that are left from \
         another job, or set them for each process"
    )]
    OtherRank {
        /// The program that set them.
        launcher: String,
        /// The rank that they name.
        launched: usize,
        /// That of MPI.
        connected: usize,
    },
    /// This program cannot use MPI.
    #[error(
        "`comm.backend` is \"mpi\", and this pipezero was built without MPI: build it with `cargo build --release --features mpi`, or use \"threads\""
    )]
    NoMpi,
    /// Messages of MPI are between memories of hosts.
    #[error(
        "`comm.backend` \"mpi\" is for ranks on CPUs: use `device` \"cpu\" (--set device=cpu, of an engine of a master file --set engines.NAME.device=cpu)"
    )]
    MpiOnGpus,
    /// More data ranks than GPUs of one host add up.
    #[error(
        "`parallel.data` is {data_degree}, but the GPUs of one process add the gradients of at most {} data ranks: use fewer, or `device` \"cpu\"",
        pipezero_models::queue::NUM_TERMS_MAX
    )]
    TooManyTerms {
        /// Data ranks.
        data_degree: usize,
    },
    /// Each process would be all ranks.
    #[error(
        "the launcher started {num_processes} processes, and with `comm.backend` \"threads\" each of them would run all ranks: use \"mpi\", on GPUs \
         \"nccl\", or start pipezero once"
    )]
    Launched {
        /// How many.
        num_processes: usize,
    },
    /// Each rank needs a GPU of its own.
    #[error(
        "`comm.backend` is \"nccl\", for which each rank needs a GPU of its own: there are {num_ranks} ranks on this host, and this process sees \
         {num_gpus} {}; use fewer ranks (`parallel.pipeline`, `parallel.data`), or {}",
        if *num_gpus == 1 { "GPU" } else { "GPUs" },
        if *are_threads {
            "`comm.backend` \"threads\", whose ranks share GPUs (of eval and generate --device cpu)"
        } else {
            "have the launcher start fewer of them on each host"
        }
    )]
    TooFewGpus {
        /// Ranks on this host.
        num_ranks: usize,
        /// GPUs that the driver shows.
        num_gpus: usize,
        /// Whether the ranks are threads of this process.
        are_threads: bool,
    },
    /// NCCL or the driver would let lanes wait for each other.
    #[error(
        "`comm.backend` is \"nccl\", and {name} is {}: {rule}; set it to {repair} before the process starts",
        value.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("\"{value}\""))
    )]
    Variable {
        /// A variable of the environment.
        name: &'static str,
        /// Its value, if it has one.
        value: Option<String>,
        /// Why it matters.
        rule: String,
        /// The value that is right.
        repair: &'static str,
    },
    /// The hosts of the job are filled otherwise than the run file says.
    #[error(transparent)]
    OtherHosts(#[from] OtherHosts),
    /// Not all processes can take part.
    #[error(transparent)]
    NotJoined(#[from] NotJoined),
    /// Processes do not know where to find each other.
    #[error(
        "`comm.backend` is \"nccl\", and {launcher} does not say where the process of rank 0 can be reached: set MASTER_ADDR to an address of its host and \
         MASTER_PORT to a port that is free there, in every process (on one host `comm.port` is enough)"
    )]
    NoMeetingPlace {
        /// The program that started them.
        launcher: String,
    },
    /// Operations do not fit on a GPU all at once.
    #[error("`comm.backend` is \"nccl\": {0}")]
    TooManyLanes(#[from] TooManyLanes),
    /// GPUs cannot be connected.
    #[error("`comm.backend` \"nccl\": {0}")]
    Nccl(#[from] NoNccl),
    /// There is no such device.
    #[error(
        "`device`: {0}; or use \"cpu\" (--set device=cpu, of an engine of a master file --set engines.NAME.device=cpu, of eval and generate --device cpu)"
    )]
    Device(#[from] NoCuda),
}

impl WorldError {
    /// Whether every process of a job has the same error, or one of them says why.
    pub fn is_of_all(&self) -> bool {
        matches!(
            self,
            Self::Launched { .. }
                | Self::MpiOnGpus
                | Self::SaidByFirst
                | Self::NotJoined(_)
                | Self::NoMeetingPlace { .. }
                | Self::OtherHosts(_)
                | Self::Variable { .. }
        )
    }

    /// Whether another start on the same hosts would end alike: the input or the hosts have to be mended first.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NotConnected { .. }
            | Self::SaidByFirst
            | Self::SaidByAnother
            | Self::NotJoined(NotJoined::Rank { is_lasting: false, .. })
            | Self::Nccl(NoNccl::Refused { .. })
            | Self::Device(NoCuda::Refused { .. }) => false,
            Self::Launcher(_)
            | Self::OtherSize { .. }
            | Self::OtherRank { .. }
            | Self::NoMpi
            | Self::MpiOnGpus
            | Self::TooManyTerms { .. }
            | Self::Launched { .. }
            | Self::TooFewGpus { .. }
            | Self::Variable { .. }
            | Self::OtherHosts(_)
            | Self::NotJoined(_)
            | Self::NoMeetingPlace { .. }
            | Self::TooManyLanes(_)
            | Self::Nccl(_)
            | Self::Device(_) => true,
        }
    }

    /// For this reason.
    pub(super) fn not_connected(reason: impl ToString) -> Self {
        Self::NotConnected { reason: reason.to_string() }
    }
}
