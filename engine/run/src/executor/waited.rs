//! How long a rank waited, by what it waited for.

use std::time::Duration;

use pipezero_schedule::Lane;
use serde::{Deserialize, Serialize};

/// Times in which the compute queue of a rank waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waited {
    /// For gathers of weights that nothing hid, those after the optimizer's step included.
    pub(crate) gathers: Duration,
    /// For reductions of gradients that nothing hid.
    pub(crate) reductions: Duration,
    /// For neighbouring stages: the pipeline's bubble and transfers that nothing hid, which one side alone cannot
    /// distinguish.
    pub(crate) stages: Duration,
    /// For the other ranks in the tail of the step: the tied weight's gradient, the gradient norm and the loss.
    pub(crate) tail: Duration,
}

impl Waited {
    pub(super) fn add(&mut self, lane: Lane, time: Duration) {
        match lane {
            Lane::Gather => self.gathers += time,
            Lane::Reduce => self.reductions += time,
            Lane::Edge(_) => self.stages += time,
            // Instructions of the compute lane are never in flight; those that wait for other ranks are the tail's.
            Lane::Compute => self.tail += time,
        }
    }

    /// For gathers and reductions over the data ranks, from the first forward to the end of the tail.
    pub(crate) fn exposed(self) -> Duration {
        self.gathers + self.reductions
    }

    /// For anything.
    pub(crate) fn total(self) -> Duration {
        self.exposed() + self.stages + self.tail
    }
}
