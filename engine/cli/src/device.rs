//! The device whose rates a prediction uses.

use pipezero_config::DeviceName;
use pipezero_files::host::available_bytes;
use pipezero_measure::{CoreTimesError, core_times};
use pipezero_models::queue::Cuda;
use pipezero_plan::Plan;
use pipezero_plan::costs::DeviceSpec;

use super::exit_status::InputMistake;
use super::figures::{bytes, counted};

/// Ranks of each core at most, for which this host's CPU is a sensible default.
const RANKS_PER_CORE_MAX: usize = 8;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// An unknown name.
    #[error(
        "--device {name}: the known devices are {}; measure any other with `pipezero profile` and give its file to `pipezero simulate --costs`",
        DeviceSpec::NAMES.join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// None was named, and of the GPU that the run is for no rates are known.
    #[error(
        "the run computes on {gpu}, whose rates are not known; name a device whose rates are, --device {}, or costs that were measured",
        DeviceSpec::NAMES.join(" or ")
    )]
    RatesNotKnown {
        /// What the driver calls it.
        gpu: String,
    },
    /// None was named, and the run is too large for this host to be the one that it is for.
    #[error(
        "which device is the run for? This host is not taken for it, as the run's {num_ranks} ranks {what}: name it, --device {}, \
         or costs that were measured",
        DeviceSpec::NAMES.join(" or ")
    )]
    NotThisHost {
        /// Ranks of the run.
        num_ranks: usize,
        /// What they need, and this host has not.
        what: String,
    },
}

impl InputMistake for DeviceError {
    fn is_input_mistake(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// The device of this name; where there is none what the run is for, this host's GPU or its CPU, if the run is not too large for it.
pub(super) fn device(name: Option<&str>, plan: &Plan) -> Result<DeviceSpec, DeviceError> {
    match name {
        Some(name) => DeviceSpec::by_name(name).ok_or_else(|| DeviceError::Unknown { name: name.to_owned() }),
        None if plan.run().device == DeviceName::Cuda => {
            let gpus = Cuda::names();
            let gpu = gpus.as_ref().ok().and_then(|names| names.first());
            gpu.and_then(|name| DeviceSpec::of_gpu(name)).ok_or_else(|| DeviceError::RatesNotKnown {
                gpu: match gpus {
                    Ok(names) => names.into_iter().next().unwrap_or_default(),
                    Err(none) => {
                        format!("a GPU, and this host has none that could be looked at ({})", none.in_short())
                    }
                },
            })
        }
        None => {
            let device = DeviceSpec::this_cpu();
            match what_is_missing(plan, device.cores.unwrap_or(1), available_bytes()) {
                None => Ok(device),
                Some(what) => Err(DeviceError::NotThisHost { num_ranks: plan.grid().world_size(), what }),
            }
        }
    }
}

/// The same device with what is measured on a core of this machine, if it is this machine's CPU. Nothing is measured for layers of given times.
pub(super) fn measured(device: DeviceSpec, plan: &Plan) -> Result<DeviceSpec, CoreTimesError> {
    if device.is_gpu() || plan.run().model.facts().given_times.is_some() {
        return Ok(device);
    }
    let num_cores = device.cores.unwrap_or(1);
    Ok(device.with_measured(core_times(plan, num_cores)?))
}

/// What a host of so many cores and bytes would need to run the plan. Layers of given times need neither.
fn what_is_missing(plan: &Plan, num_cores: usize, available: Option<u64>) -> Option<String> {
    if plan.run().model.facts().given_times.is_some() {
        return None;
    }
    let num_ranks = plan.grid().world_size();
    let needed = plan.needs().world_bytes;
    match available {
        Some(available) if needed > available => {
            Some(format!("need {}, and {} are free", bytes(needed), bytes(available)))
        }
        _ if num_ranks > RANKS_PER_CORE_MAX * num_cores => {
            Some(format!("are more than {RANKS_PER_CORE_MAX} for each of its {}", counted(num_cores, "core")))
        }
        _ => None,
    }
}
