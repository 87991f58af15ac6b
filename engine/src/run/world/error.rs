//! Why there is no world.

use pipezero_models::queue::{NoCuda, NoNccl};

use crate::config::BackendName;
use crate::host::LaunchError;

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
    /// The launcher's variables do not say which rank this process is.
    #[error(transparent)]
    Launch(#[from] LaunchError),
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
    #[error("`comm.backend` \"mpi\" is for ranks on CPUs: use `device` \"cpu\" (--set device=cpu)")]
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
        "the launcher started {num_processes} processes, and with `comm.backend` {} each of them would run all ranks, as threads: use \"mpi\", or start \
         pipezero once",
        named(*backend)
    )]
    Launched {
        /// The backend.
        backend: BackendName,
        /// How many.
        num_processes: usize,
    },
    /// Each rank needs a GPU of its own.
    #[error(
        "`comm.backend` is \"nccl\", for which each rank needs a GPU of its own: the grid has {num_ranks} ranks, and this process sees {num_gpus} GPUs; \
         use a smaller grid, or \"threads\", whose ranks share GPUs"
    )]
    TooFewGpus {
        /// Ranks of the grid.
        num_ranks: usize,
        /// GPUs that the driver shows.
        num_gpus: usize,
    },
    /// GPUs cannot be connected.
    #[error("`comm.backend` \"nccl\": {0}")]
    Nccl(#[from] NoNccl),
    /// There is no such device.
    #[error("`device`: {0}; or use \"cpu\" (--set device=cpu, of eval and generate --device cpu)")]
    Device(#[from] NoCuda),
}

/// A backend as run files name it.
fn named(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Threads => "\"threads\"",
        BackendName::Mpi => "\"mpi\"",
        BackendName::Nccl => "\"nccl\"",
    }
}
