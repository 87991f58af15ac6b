//! What the reader of a simulation on a GPU should know of the run.

use pipezero_config::Precision;

use crate::costs::DeviceSpec;
use crate::{Bytes, Plan};

/// Why a step of a plan that is simulated on a device may not be the one that was meant: the run computes in f32 since this
/// host would, or a rank does not fit the GPU's memory. Nothing for a CPU.
pub fn device_diagnostics(plan: &Plan, device: &DeviceSpec) -> Vec<String> {
    let mut diagnostics = Vec::new();
    if device.cores.is_some() {
        return diagnostics;
    }
    if plan.run().precision == Precision::F32 && plan.run().model.learns() {
        diagnostics.push(
            "warning: these are predictions for a run in f32, as `bf16` is off or \"auto\" on this host; --set \
             bf16.enabled=true predicts the same run in bf16"
                .to_owned(),
        );
    }
    let fullest = plan.forecast().into_iter().max_by_key(|rank| rank.memory.peak);
    if let (Some(fullest), Some(memory_bytes)) = (fullest, device.memory_bytes)
        && fullest.memory.peak > memory_bytes
    {
        diagnostics.push(format!(
            "warning: world rank {} needs {} and {} has {}: it does not fit; --set memory={}GiB lists changes that would",
            fullest.rank,
            Bytes(fullest.memory.peak),
            device.name,
            Bytes(memory_bytes),
            memory_bytes >> 30,
        ));
    }
    diagnostics
}
