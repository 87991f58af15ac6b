//! Memory of a GPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaContext, DriverError, result, sys};

use super::Shared;
use super::peers::Peers;
use crate::memory::DeviceMemory;

/// An allocation, freed once all has been done that the devices were asked for that reach it.
#[derive(Debug)]
pub(super) struct Allocation {
    peers: Arc<Peers>,
    context: Arc<CudaContext>,
    address: sys::CUdeviceptr,
    num_bytes: usize,
    /// Of all allocations of the device.
    buffer_bytes: Arc<AtomicU64>,
}

impl Allocation {
    /// Allocates so many bytes, at least one, all zero.
    pub(super) fn zeros(device: &Shared, num_bytes: usize) -> Result<Self, DriverError> {
        let Shared { peers, context, buffer_bytes, .. } = device;
        context.bind_to_thread()?;
        let num_bytes = num_bytes.max(1);
        // SAFETY: the context is bound. The bytes are set before anybody has their address.
        let address = unsafe { result::malloc_sync(num_bytes)? };
        buffer_bytes.fetch_add(num_bytes as u64, Ordering::Relaxed);
        let allocation = Self {
            peers: Arc::clone(peers),
            context: Arc::clone(context),
            address,
            num_bytes,
            buffer_bytes: Arc::clone(buffer_bytes),
        };
        // SAFETY: the allocation has these bytes. A device's own memory may be set after the call returns, on the default stream, with which
        // queues are not in order: so it is waited for.
        unsafe { result::memset_d8_sync(address, 0, num_bytes)? };
        result::ctx::synchronize()?;
        Ok(allocation)
    }
}

impl DeviceMemory for Allocation {
    fn address(&self) -> u64 {
        self.address
    }

    fn ordinal(&self) -> usize {
        self.context.ordinal()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Kernels may still use it. A device that has failed frees its memory when the process ends.
        let is_settled = self.peers.synchronize().and_then(|()| self.context.bind_to_thread());
        if is_settled.is_ok() {
            // SAFETY: it was allocated by `malloc_sync`, is freed once, and no device that reaches it has anything left to do.
            let _ = unsafe { result::free_sync(self.address) };
            self.buffer_bytes.fetch_sub(self.num_bytes as u64, Ordering::Relaxed);
        }
    }
}
