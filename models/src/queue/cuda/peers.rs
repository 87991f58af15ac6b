//! Devices that were opened together and reach each other's memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};

use super::libraries::NoCuda;
use super::refused;
use crate::queue::device::next_device_number;

/// What devices share whose queues use each other's buffers.
#[derive(Debug)]
pub(super) struct Peers {
    /// By which buffers know whose they are.
    pub(super) number: u64,
    contexts: Vec<Arc<CudaContext>>,
}

impl Peers {
    /// Opens these devices, each of which can then read and write the memory of all.
    pub(super) fn open(ordinals: impl Iterator<Item = usize>) -> Result<Self, NoCuda> {
        let opened = |ordinal| CudaContext::new(ordinal).map_err(|error| refused("opening a device", &error));
        let contexts: Vec<_> = ordinals.map(opened).collect::<Result<_, _>>()?;
        for context in &contexts {
            // SAFETY: queues put their own events where they are needed; the library's own are for its slices, which are not used.
            unsafe { context.disable_event_tracking() };
            for other in contexts.iter().filter(|other| other.ordinal() != context.ordinal()) {
                let reaches = reach(context, other);
                if !reaches.map_err(|error| refused("cuCtxEnablePeerAccess", &error))? {
                    return Err(NoCuda::Apart { one: context.ordinal(), other: other.ordinal() });
                }
            }
        }
        Ok(Self { number: next_device_number(), contexts })
    }

    pub(super) fn contexts(&self) -> &[Arc<CudaContext>] {
        &self.contexts
    }

    /// Waits until all that the devices were asked for has been done.
    pub(super) fn synchronize(&self) -> Result<(), DriverError> {
        self.contexts.iter().try_for_each(|context| {
            context.bind_to_thread()?;
            result::ctx::synchronize()
        })
    }
}

/// Has a device read and write the memory of another; whether it can.
fn reach(context: &CudaContext, other: &CudaContext) -> Result<bool, DriverError> {
    context.bind_to_thread()?;
    let mut can = 0;
    // SAFETY: the number is written before the call returns, and both devices are open.
    unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, context.cu_device(), other.cu_device()).result()? };
    if can == 0 {
        return Ok(false);
    }
    // SAFETY: the context that is to reach the other's memory is bound, and the other is alive.
    match unsafe { sys::cuCtxEnablePeerAccess(other.cu_ctx(), 0) } {
        sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
        answer => answer.result().map(|()| true),
    }
}
