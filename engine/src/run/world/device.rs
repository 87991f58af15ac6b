//! The device that a run file names.

use std::sync::Arc;

use pipezero_models::queue::{Cuda, NoCuda};
use pipezero_models::{Device, Host};

use crate::config::DeviceName;

/// What computes.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// What computes.
    pub(super) device: Arc<dyn Device>,
    /// What people call it, and why it is no GPU if the run file leaves that to the host.
    pub(super) name: String,
}

/// Opens the device of this name.
///
/// # Errors
/// When a GPU is asked for, and it or a library that it needs is missing.
pub(super) fn device_of(name: DeviceName) -> Result<Chosen, NoCuda> {
    let on_host = |name: String| Chosen { device: Arc::new(Host), name };
    let opened = match name {
        DeviceName::Cpu => return Ok(on_host("CPU".to_owned())),
        DeviceName::Cuda | DeviceName::Auto => Cuda::open(0).and_then(|cuda| Ok((cuda.name()?, cuda))),
    };
    match (opened, name) {
        (Ok((called, cuda)), _) => Ok(Chosen { device: Arc::new(cuda), name: called }),
        (Err(error), DeviceName::Auto) => Ok(on_host(format!("CPU, since there is no GPU to use: {error}"))),
        (Err(error), _) => Err(error),
    }
}
