//! What the reader of a simulation on a GPU should know of the run.

use std::fmt;

use pipezero_models::ElementType;

use crate::plan::costs::Device;
use crate::plan::{Bytes, Plan};

/// Why a step that is simulated on a GPU may not be the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRemark {
    /// The run computes in f32, since this host would.
    ComputesInF32,
    /// A rank does not fit the GPU's memory.
    DoesNotFit {
        /// The fullest world rank.
        rank: usize,
        /// Bytes that it needs.
        needed_bytes: u64,
        /// The GPU.
        device: String,
        /// Bytes that it has.
        memory_bytes: u64,
    },
}

impl fmt::Display for DeviceRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ComputesInF32 => f.write_str(
                "warning: the run computes in f32, which is what \"auto\" means on this host; --set bf16.enabled=true predicts \
                 what a GPU would do",
            ),
            Self::DoesNotFit { rank, needed_bytes, device, memory_bytes } => write!(
                f,
                "warning: world rank {rank} needs {} and {device} has {}: it does not fit; --set memory={}GiB lists changes \
                 that would",
                Bytes(*needed_bytes),
                Bytes(*memory_bytes),
                memory_bytes >> 30,
            ),
        }
    }
}

/// The remarks on a plan that is simulated on a device; none for a CPU.
pub fn device_remarks(plan: &Plan, device: &Device) -> Vec<DeviceRemark> {
    let mut remarks = Vec::new();
    if device.cores.is_some() {
        return remarks;
    }
    if plan.element_type() == ElementType::F32 && plan.run().model.learns() {
        remarks.push(DeviceRemark::ComputesInF32);
    }
    let fullest = plan.forecast().into_iter().max_by_key(|rank| rank.memory.peak);
    if let (Some(fullest), Some(memory_bytes)) = (fullest, device.memory_bytes)
        && fullest.memory.peak > memory_bytes
    {
        remarks.push(DeviceRemark::DoesNotFit {
            rank: fullest.rank,
            needed_bytes: fullest.memory.peak,
            device: device.name.clone(),
            memory_bytes,
        });
    }
    remarks
}
