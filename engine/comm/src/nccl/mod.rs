//! Ranks with a GPU each, connected by NCCL: whatever the ranks' threads and processes are, elements go from GPU to GPU.
//!
//! Gathers, reductions, tied weights and each directed stage edge have a communicator and a stream of their own, so that none waits for
//! another. All are split from one that connects the world, in the order of [`Lanes`], before the first step, and have sent something by
//! then: no connection is made later.
//!
//! Nothing is buffered or copied: a gather lands where the unit is used, and an operation begins once the compute queue has come to its
//! start. What waits for it is the compute queue, not the host.

mod communicator;
mod lane;
mod lanes;
mod link;
mod reduction;
mod stop;
mod words;

pub use lanes::Lanes;
pub(crate) use link::Nccl;
pub use link::TooManyLanes;
