//! Why there is no NCCL, and what it says of itself.

/// The oldest version 2 that has what is used: an order of launches of several communicators (2.26, `NCCL_LAUNCH_ORDER_IMPLICIT`).
pub(super) const LEAST_MINOR: i32 = 26;

/// Why operations between GPUs cannot go through NCCL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoNccl {
    /// The library is not installed, or not where the loader looks.
    #[error(
        "no library `libnccl.so.2` (which connects GPUs), for which the loader looked in LD_LIBRARY_PATH and the system's folders: {reason}; \
         install NVIDIA's NCCL 2.{least} or newer, or its package for Python (nvidia-nccl-cu13), and name its folder in LD_LIBRARY_PATH",
        least = LEAST_MINOR
    )]
    Library {
        /// What the loader says.
        reason: String,
    },
    /// The library is there, and not one that can be used.
    #[error(
        "library `{name}` is there and cannot be used: {reason}; install NVIDIA's NCCL 2.{least} or newer",
        least = LEAST_MINOR
    )]
    Unusable {
        /// Under which name it was found.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The library refused.
    #[error("{call}: {reason}")]
    Refused {
        /// What was asked of it.
        call: &'static str,
        /// What it said.
        reason: String,
    },
}
