//! What commands between steps will need of a GPU's memory, held until then: so that what the driver takes later for itself keeps no run from
//! saving what it has learned.

use pipezero_models::ElementType;
use pipezero_partition::Purpose;

use super::between_steps::bytes_between_steps;
use super::rank::Rank;
use crate::config::DeviceName;
use crate::run::memory::Category;

impl Rank {
    /// Gives the memory free for a command between steps.
    pub(crate) fn release_reserve(&mut self) {
        self.reserve = None;
    }

    /// Holds it for the next command between steps. Where there is no such memory any more, that command will say so.
    pub(crate) fn hold_reserve(&mut self, purpose: Purpose) {
        if self.reserve.is_none() && self.plan.run().device == DeviceName::Cuda {
            let num_bytes = usize::try_from(bytes_between_steps(&self.plan, purpose)).unwrap_or(usize::MAX);
            let num_elements = num_bytes / ElementType::F32.num_bytes();
            self.reserve = self.between.zeros(num_elements, Category::Communication).ok();
        }
    }
}
