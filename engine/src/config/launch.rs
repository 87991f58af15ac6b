//! The host's cores, and the ranks that a launcher has started.

/// What a run is started on, and so what its file is resolved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Cores of this host, at least 1.
    pub cores: usize,
    /// Ranks that a launcher started, at least 1. `None` where the engine starts its own, as the threads backend does: then
    /// the file alone says how many, and a data degree of `"auto"` is 1.
    pub ranks: Option<usize>,
}

impl Launch {
    /// This host, without a launcher.
    pub fn this_host() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Self { cores, ranks: None }
    }
}
