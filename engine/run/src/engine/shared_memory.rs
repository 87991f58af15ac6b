//! Which memory it is that ranks share.

use std::fmt;

use pipezero_plan::Bytes;

/// A memory in which several ranks may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedMemory {
    /// The host's, or what its control group may have of it.
    Host,
    /// A GPU's own.
    Gpu {
        /// Its number among those of the host, as far as the process can tell.
        number: usize,
        /// What people call it.
        name: String,
        /// All that it has.
        total_bytes: u64,
    },
}

impl fmt::Display for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("on this host or to its control group"),
            Self::Gpu { number, name, total_bytes } => write!(
                f,
                "of {} on GPU {number} ({name}); nvidia-smi lists the processes that hold some of it, and `device` \"cpu\" takes the host's",
                Bytes(*total_bytes)
            ),
        }
    }
}
