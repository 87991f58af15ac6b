//! Memory of a GPU.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{DriverError, result, sys};

use super::Shared;
use crate::element::ElementType;
use crate::error::ModelError;
use crate::memory::DeviceMemory;

/// An allocation, freed once all has been done that the devices were asked for that reach it.
#[derive(Debug)]
pub(super) struct Allocation {
    device: Arc<Shared>,
    address: sys::CUdeviceptr,
    num_bytes: usize,
}

impl Allocation {
    /// Allocates so many bytes, all zero.
    pub(super) fn zeros(device: &Arc<Shared>, num_bytes: usize) -> Result<Self, DriverError> {
        device.context.bind_to_thread()?;
        // SAFETY: the context is bound. The bytes are set before anybody has their address.
        let address = unsafe { result::malloc_sync(num_bytes)? };
        device.buffer_bytes.fetch_add(num_bytes as u64, Ordering::Relaxed);
        let allocation = Self { device: Arc::clone(device), address, num_bytes };
        // SAFETY: the allocation has these bytes.
        unsafe { clear(device, address, num_bytes)? };
        Ok(allocation)
    }
}

/// Bytes of so many elements, as an allocation has them: one at least.
pub(super) fn num_bytes(len: usize, element_type: ElementType) -> Result<usize, ModelError> {
    let num_bytes = len.checked_mul(element_type.num_bytes()).filter(|&bytes| isize::try_from(bytes).is_ok());
    Ok(num_bytes.ok_or(ModelError::TooLarge { len, element_type })?.max(1))
}

/// Sets bytes of a device to zero, and waits for that alone: what else is under way may wait for other ranks.
///
/// # Safety
/// They are one allocation's, and nobody uses them; the device's context is bound.
pub(super) unsafe fn clear(device: &Shared, address: u64, num_bytes: usize) -> Result<(), DriverError> {
    // SAFETY: the caller's promise.
    unsafe { result::memset_d8_async(address, 0, num_bytes, device.clearing.cu_stream())? };
    device.clearing.synchronize()
}

impl DeviceMemory for Allocation {
    fn address(&self) -> u64 {
        self.address
    }

    fn ordinal(&self) -> usize {
        self.device.context.ordinal()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Kernels may still use it. A device that has failed frees its memory when the process ends.
        let Shared { peers, context, buffer_bytes, .. } = &*self.device;
        let is_settled = peers.synchronize().and_then(|()| context.bind_to_thread());
        // SAFETY: it was allocated by `malloc_sync`, is freed once, and no device that reaches it has anything left to do.
        let is_freed = is_settled.and_then(|()| unsafe { result::free_sync(self.address) });
        if is_freed.is_ok() {
            buffer_bytes.fetch_sub(self.num_bytes as u64, Ordering::Relaxed);
        }
    }
}
