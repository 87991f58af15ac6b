//! What commands between steps need of a GPU's memory, held while steps run: so that what the driver or another program takes meanwhile
//! keeps no run from saving what it has learned.

use pipezero_comm::memory::Category;
use pipezero_models::ElementType;

use super::rank::Rank;
use super::scratch::scratch_bytes;

impl Rank {
    /// Holds the memory, before a step: then all ranks have what they hold all the time. Where there is none left, the next command
    /// between steps says so.
    pub(crate) fn hold_reserve(&mut self) {
        if self.reserve.is_none() && self.plan.run().device.has_own_memory() {
            let num_bytes = scratch_bytes(&self.plan);
            let num_elements =
                usize::try_from(num_bytes).unwrap_or(usize::MAX) / ElementType::F32.num_bytes();
            self.reserve = self.scratch.zeros(num_elements, Category::Communication).ok();
        }
    }

    /// Gives the memory free, before a command between steps: once all ranks of the device have, each finds its own.
    pub(crate) fn release_reserve(&mut self) {
        self.reserve = None;
    }
}
