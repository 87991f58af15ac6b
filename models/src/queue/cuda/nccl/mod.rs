//! NCCL: operations between GPUs of ranks that may be threads or processes, on any number of hosts.
//!
//! There is no published crate for NCCL alone; the types are those of cudarc's bindings. The library is looked for at run time, under the
//! name `libnccl.so.2` too, which packages without headers have.
//!
//! A communicator has a stream of its own, on which its operations run in the order of their calls: one that is used on several streams
//! would order nothing (NCCL documentation, "CUDA Stream Semantics"). All calls are non-blocking, those that make communicators too: the
//! caller asks again and again whether they are done, and so can give up.

mod api;
mod communicator;
mod error;
mod joining;
mod memory;

use super::queue::CudaQueue;
use super::said::said;
use super::{Cuda, Shared};
pub use api::nccl_version;
pub use communicator::NcclCommunicator;
pub use error::NoNccl;
pub use joining::{Joining, NcclId};
