//! Values in the host's memory, wherever a rank computes.

use std::sync::Arc;

use pipezero_models::{ElementType, ModelError};
use pipezero_partition::Category;

use super::ledger::Ledger;
use super::tracked_buffer::Charge;

/// f32 values that are charged to a rank's ledger for as long as they live.
#[derive(Debug)]
pub struct HostValues {
    values: Vec<f32>,
    _charge: Charge,
}

impl HostValues {
    pub(super) fn zeros(len: usize, category: Category, ledger: &Arc<Ledger>) -> Result<Self, ModelError> {
        let too_large = |_| ModelError::TooLarge { len, element_type: ElementType::F32 };
        let mut values = Vec::new();
        values.try_reserve_exact(len).map_err(too_large)?;
        values.resize(len, 0.0);
        let charge = Charge::new(ledger, category, ElementType::F32.num_bytes() as u64 * len as u64);
        Ok(Self { values, _charge: charge })
    }

    /// The values.
    pub fn get(&self) -> &[f32] {
        &self.values
    }

    /// The values, to be written.
    pub fn get_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}
