//! The memory of the devices that ranks compute on, and what is used of it beside their buffers.

use pipezero_comm::world::RanksOnDevice;
use serde::{Deserialize, Serialize};

/// A device's memory at the end of a run, before buffers are freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// What people call the device.
    pub device: String,
    /// The ranks of a process that compute on it.
    pub ranks: Vec<usize>,
    /// All that it has.
    pub total_bytes: u64,
    /// Buffers of these ranks.
    pub buffer_bytes: u64,
    /// What else is in use: the driver's context, kernels, libraries, what the driver rounds allocations up by; and other processes.
    pub beside_bytes: u64,
}

impl DeviceMemory {
    /// Of each device that has a memory of its own; none of one that has failed.
    pub(super) fn of_devices(devices: &[RanksOnDevice]) -> Vec<Self> {
        let memory = |ranks: &RanksOnDevice| {
            let memory = ranks.on.device.memory().ok().flatten()?;
            let used_bytes = memory.total_bytes - memory.free_bytes;
            Some(Self {
                device: ranks.on.name.clone(),
                ranks: ranks.ranks.clone(),
                total_bytes: memory.total_bytes,
                buffer_bytes: memory.buffer_bytes,
                beside_bytes: used_bytes.saturating_sub(memory.buffer_bytes),
            })
        };
        devices.iter().filter_map(memory).collect()
    }
}
