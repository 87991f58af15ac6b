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
    let mut kernels = Vec::<KernelTime>::new();
    for device in &devices {
        let Some(of_device) = device.on.device.stop_kernel_times()? else { return Ok(None) };
        for new in of_device {
            let is_same = |known: &&mut KernelTime| (&known.kernel, &known.size) == (&new.kernel, &new.size);
            match kernels.iter_mut().find(is_same) {
                Some(known) => {
                    known.num_calls += new.num_calls;
                    known.ns += new.ns;
                }
                None => kernels.push(new),
            }
        }
    }
    Ok(Some(KernelStep { kernels, num_devices: devices.len(), step_s }))
}
