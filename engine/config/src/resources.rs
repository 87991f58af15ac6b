//! The resources that a run is planned for: the host's cores, memory and GPUs, and the ranks that a launcher has started.

use pipezero_files::host;
use pipezero_models::queue::Cuda;

/// The cores, memory, GPU and ranks that a run file is resolved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Cores for the ranks of this process, at least 1.
    pub cores: usize,
    /// Memory of this host, which all ranks share; `None` where it is not known, or ranks run on several hosts.
    pub memory_bytes: Option<u64>,
    /// Whether the host has a GPU, which `"device": "auto"` then means.
    pub gpu: HostGpu,
    /// Ranks that a launcher started, at least 2. `None` where the engine starts its own, as the threads backend does: then
    /// the file alone says how many, and a data degree of `"auto"` is 1.
    pub ranks: Option<usize>,
    /// Of an engine of a task that says which ranks of the job its engines have: its own.
    pub part: Option<PartOfJob>,
}

/// Which ranks of a job an engine has, as far as that is known before its grid is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOfJob {
    /// That which is its rank 0.
    pub first: usize,
    /// How many it has; `None` where its grid alone says so.
    pub size: Option<usize>,
    /// Ranks that the job has at least. Where they are threads, they share the host's cores.
    pub num_ranks: usize,
}

impl Resources {
    /// This host, and the launcher that has started this process, if any.
    pub fn this_host() -> Self {
        // What is wrong with a launcher's variables is said where ranks are started.
        let launched = host::LaunchedProcess::this().unwrap_or_default();
        let cores = host::cores::of_process(launched.as_ref());
        let is_one_host = launched.as_ref().is_none_or(host::LaunchedProcess::is_on_one_host);
        Self {
            cores,
            memory_bytes: is_one_host.then(host::memory_bytes).flatten(),
            gpu: HostGpu::NotLookedFor,
            // A process that is alone runs all ranks, as if nothing had launched it.
            ranks: launched.map(|launched| launched.size).filter(|&size| size > 1),
            part: None,
        }
    }
}

/// Whether a host has a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostGpu {
    /// It has one.
    Present,
    /// It has none.
    Absent,
    /// Nobody knows yet: a run that names its device does not load the driver's libraries.
    NotLookedFor,
}

impl HostGpu {
    /// Whether the host has one. Looks for the driver and its libraries, if nobody has, and asks whether they know of a GPU.
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Present => true,
            Self::Absent => false,
            Self::NotLookedFor => Cuda::num_devices().is_ok(),
        }
    }
}
