//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use super::{ThreadWorld, World};
use crate::config::BackendName;
use crate::plan::Plan;

/// What connects the ranks of a plan, by its `comm.backend`.
pub fn world_of(plan: &Plan) -> Arc<dyn World> {
    let (num_ranks, comm) = (plan.grid().world_size(), &plan.run().comm);
    match comm.backend {
        BackendName::Threads => Arc::new(ThreadWorld::new(num_ranks, comm.timeout, comm.links)),
    }
}
