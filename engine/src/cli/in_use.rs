//! How much of what a plan allocates is in use at once.

use serde::Serialize;

use super::failure::Failure;
use crate::plan::Plan;
use crate::plan::costs::{DeviceSpec, Source};
use crate::plan::what_if::{Simulation, in_use_bytes};

/// The device by whose times a program is played where the user names none.
const DEVICE: &str = "h100";

/// What is in use at once in a step, as it is played.
#[derive(Debug, Serialize)]
pub(super) struct InUse {
    /// `[pipeline rank]`
    pub(super) peak_bytes: Vec<u64>,
    /// By whose times.
    pub(super) device: String,
}

impl InUse {
    /// What is in use in this step, which was simulated by this device's times; or, where none was, in one by an H100's, if the program
    /// is not too long.
    pub(super) fn of(
        plan: &Plan,
        simulated: Option<(&Simulation<'_>, &DeviceSpec)>,
    ) -> Result<Option<Self>, Failure> {
        let own = |simulation: &Simulation<'_>, device: &DeviceSpec| -> Result<Option<Self>, Failure> {
            let peak_bytes = in_use_bytes(plan, simulation.step())?;
            Ok(Some(Self { peak_bytes, device: device.name.clone() }))
        };
        if let Some((simulation, device)) = simulated {
            return own(simulation, device);
        }
        if plan.num_instructions() > Plan::COMPARED_INSTRUCTIONS_MAX {
            return Ok(None);
        }
        let device = DeviceSpec::by_name(DEVICE).expect("a device that is known by name");
        own(&Simulation::new(plan, Source::Analytic(&device), None)?, &device)
    }
}
