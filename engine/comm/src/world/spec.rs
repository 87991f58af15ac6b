//! How an engine wants its ranks connected: all that a world needs to know of a run.

use pipezero_config::{CommConfig, DeviceName};
use pipezero_models::queue::F32Products;

use crate::Lanes;

/// How an engine wants its ranks connected. Of the plan it knows only which ranks exchange messages, and how large the largest is
/// ([`Lanes`]).
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// Backend, time limit, port, emulated links, place of the ranks in the job.
    pub comm: CommConfig,
    /// The kind of device that the ranks compute on.
    pub device: DeviceName,
    /// How GPUs multiply matrices of f32.
    pub f32_products: F32Products,
    /// The ranks, and which of them exchange messages.
    pub lanes: Lanes,
}

impl WorldSpec {
    /// Number of ranks.
    pub(super) fn num_ranks(&self) -> usize {
        self.lanes.world_size
    }

    /// The job's rank that is rank 0 here.
    pub(super) fn first_rank(&self) -> usize {
        self.comm.first_rank.unwrap_or(0)
    }
}
