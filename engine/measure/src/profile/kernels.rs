//! A step whose kernels are timed one by one.

use pipezero_models::queue::KernelTime;
use pipezero_run::engine::Engine;

use super::ProfileError;

/// The kernels of a step on the devices of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStep {
    /// All kernels, those of equal name and size together.
    pub kernels: Vec<KernelTime>,
    /// How many devices have computed them.
    pub num_devices: usize,
    /// Duration of the step in seconds. Timing makes it a little longer.
    pub step_s: f64,
}

/// Runs a step; `None` where the ranks compute on something that does not time kernels, as the host.
pub(super) fn timed(engine: &mut Engine) -> Result<Option<KernelStep>, ProfileError> {
    let devices = engine.devices();
    devices.iter().for_each(|device| device.on.device.start_kernel_times());
    let step_s = engine.train_batch()?.step_s;
    let mut of_devices = Vec::new();
    for device in &devices {
        let Some(of_device) = device.on.device.stop_kernel_times()? else { return Ok(None) };
        of_devices.extend(of_device);
    }
    let kernels = KernelTime::by_size(of_devices);
    Ok(Some(KernelStep { kernels, num_devices: devices.len(), step_s }))
}
