//! The memory of the devices that ranks compute on, and what is used of it beside their buffers.

use serde::Serialize;

use crate::run::world::RanksOnDevice;

/// A device's memory at the end of a run, before buffers are freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceMemory {
    /// What people call the device.
    pub device: String,
    /// All that it has.
    pub total_bytes: u64,
    /// Buffers of the ranks that compute on it.
    pub buffer_bytes: u64,
    /// What else is in use: the driver's context, kernels, libraries, what the driver rounds allocations up by; and other programs.
    pub beside_bytes: u64,
}

impl DeviceMemory {
    /// Of each device that has a memory of its own and says what is used of it.
    pub(super) fn of_devices(devices: &[RanksOnDevice]) -> Vec<Self> {
        let memory = |ranks: &RanksOnDevice| {
            let memory = ranks.on.device.memory().ok().flatten()?;
            let used_bytes = memory.total_bytes - memory.free_bytes;
            Some(Self {
                device: ranks.on.name.clone(),
                total_bytes: memory.total_bytes,
                buffer_bytes: memory.buffer_bytes,
                beside_bytes: used_bytes.saturating_sub(memory.buffer_bytes),
            })
        };
        devices.iter().filter_map(memory).collect()
    }
}
