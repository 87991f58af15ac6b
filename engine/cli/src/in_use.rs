//! How much of what a plan allocates is in use at once.

use pipezero_config::DeviceName;
use pipezero_plan::Plan;
use pipezero_plan::costs::{DeviceSpec, Source};
use pipezero_plan::what_if::{Simulation, in_use_bytes};
use pipezero_schedule::simulate::MemoryError;
use serde::Serialize;

/// The device on which a step is simulated where the user names none and the run is for GPUs.
const GPU: &str = "h100";

/// What is in use at once in a simulated step.
#[derive(Debug, Serialize)]
pub(super) struct InUse {
    /// `[pipeline rank]`
    pub(super) peak_used_bytes: Vec<u64>,
    /// On which the step was simulated.
    pub(super) device: String,
}

impl InUse {
    /// What is in use in this step, which was simulated on this device.
    pub(super) fn in_step(simulation: &Simulation<'_>, device: &DeviceSpec) -> Result<Self, MemoryError> {
        let peak_used_bytes = in_use_bytes(simulation.plan(), simulation.step())?;
        Ok(Self { peak_used_bytes, device: device.name.clone() })
    }

    /// What is in use in a step where the user names no device, on one that is the same on every host: of a run on GPUs an H100, of one on CPUs a
    /// core for each rank. Or why that is not known.
    pub(super) fn unasked(plan: &Plan) -> Result<Self, String> {
        if plan.num_instructions() > Plan::COMPARED_INSTRUCTIONS_MAX {
            return Err(too_long(plan));
        }
        let device = match plan.run().device {
            DeviceName::Cuda => DeviceSpec::by_name(GPU).expect("a device that is known by name"),
            DeviceName::Cpu => DeviceSpec::nominal_cpu(),
        };
        let simulation =
            Simulation::new(plan, Source::Analytic(&device), None).map_err(|error| error.to_string())?;
        Self::in_step(&simulation, &device).map_err(|error| error.to_string())
    }
}

/// That a program is too long to be simulated, or compared, for figures that nobody asked for.
pub(super) fn too_long(plan: &Plan) -> String {
    let (own, most) = (plan.num_instructions(), Plan::COMPARED_INSTRUCTIONS_MAX);
    format!("the program has {own} instructions, more than {most}")
}
