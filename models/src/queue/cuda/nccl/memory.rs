//! Memory that NCCL allocates, so that it moves elements there without copies or buffers of its own.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use super::Shared;
use super::api::SUCCESS;
use super::communicator::NcclCommunicator;
use crate::buffer::Buffer;
use crate::element::ElementType;
use crate::error::ModelError;
use crate::memory::DeviceMemory;
use crate::queue::cuda::memory::{clear, num_bytes};

/// `NCCL_WIN_COLL_SYMMETRIC`: all members' memory has one size, and is used at the same places.
const SYMMETRIC: c_int = 1;
/// What the driver maps at once, in bytes.
const GRANULARITY: usize = 2 << 20;

/// An allocation that a communicator's members have registered together, each its own.
#[derive(Debug)]
struct NcclMemory {
    of: Arc<NcclCommunicator>,
    address: *mut c_void,
    num_bytes: usize,
    /// Null where the library has no windows, or none between these GPUs. The library writes it when all members have called.
    window: Box<*mut c_void>,
}

// SAFETY: an address of a device and a handle of the library, which any thread may use.
unsafe impl Send for NcclMemory {}
// SAFETY: as above; nothing changes through a shared reference.
unsafe impl Sync for NcclMemory {}

impl NcclCommunicator {
    /// So many zeros in memory that the library allocates, and where it can, lets all members' GPUs use. All members call it, for as many. The library rounds
    /// bytes up to what the driver maps at once, 2 MiB.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has no such memory left, or other members have not called within the time-out; [`ModelError::Device`] too once
    /// `is_stopped` says that they will not. The communicator is aborted then.
    pub fn zeros(
        self: &Arc<Self>,
        len: usize,
        element: ElementType,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Buffer, ModelError> {
        let memory = NcclMemory::new(self, num_bytes(len, element)?, is_stopped)?;
        Ok(Buffer::on_device(Box::new(memory), len, element))
    }
}

impl NcclMemory {
    fn new(
        of: &Arc<NcclCommunicator>,
        num_bytes: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, ModelError> {
        let device = of.device();
        device.check()?;
        device.context.bind_to_thread().map_err(|error| device.refuses("cuCtxSetCurrent", &error))?;
        let mut address = null_mut();
        // SAFETY: the context is bound, and the address is written before the call returns.
        let status = unsafe { (of.api.allocate)(&raw mut address, num_bytes) };
        if status != SUCCESS {
            return Err(not_allocated(device, num_bytes, &of.api.said(status)));
        }
        device.buffer_bytes.fetch_add(num_bytes as u64, Ordering::Relaxed);
        let mut memory = Self { of: Arc::clone(of), address, num_bytes, window: Box::new(null_mut()) };
        // SAFETY: the context is bound, and nobody else has these bytes yet.
        unsafe { clear(device, address as u64, num_bytes) }
            .map_err(|error| device.refuses("cuMemsetD8", &error))?;
        memory.register(is_stopped)?;
        Ok(memory)
    }

    fn register(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), ModelError> {
        const CALL: &str = "ncclCommWindowRegister";
        let Self { of, address, num_bytes, window } = self;
        let Some(windows) = of.api.windows.as_ref().filter(|_| !of.is_aborted()) else { return Ok(()) };
        // SAFETY: the communicator is alive and has this memory; the handle's place is a box that stays until the call is done, or the
        // communicator is aborted, as it is below where the call fails.
        let status =
            unsafe { (windows.register)(of.handle(), *address, *num_bytes, &raw mut **window, SYMMETRIC) };
        let is_done = of.api.check(CALL, status).and_then(|()| of.wait_for_call(CALL, is_stopped));
        is_done.map_err(|error| {
            of.abort();
            ModelError::Device { reason: format!("NCCL, {error}") }
        })
    }
}

/// The library says of memory that is missing only that a call of CUDA failed.
fn not_allocated(device: &Shared, num_bytes: usize, said: &str) -> ModelError {
    let needed = num_bytes.next_multiple_of(GRANULARITY);
    match device.context.mem_get_info() {
        Ok((free, _)) if free < needed => {
            device.not_allocated(needed, DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY))
        }
        _ => device.refuses("ncclMemAlloc", &said),
    }
}

impl DeviceMemory for NcclMemory {
    fn address(&self) -> u64 {
        self.address as u64
    }

    fn ordinal(&self) -> usize {
        self.of.device().context.ordinal()
    }
}

impl Drop for NcclMemory {
    /// Operations may still use it. A device that has failed frees its memory when the process ends.
    fn drop(&mut self) {
        let device = self.of.device();
        if device.peers.synchronize().and_then(|()| device.context.bind_to_thread()).is_err() {
            return;
        }
        if let (Some(windows), false, false) =
            (&self.of.api.windows, self.window.is_null(), self.of.is_aborted())
        {
            // SAFETY: the communicator is alive, the window is its own, and no operation uses it any more.
            unsafe { (windows.deregister)(self.of.handle(), *self.window) };
        }
        // SAFETY: the library allocated it, it is freed once, and nothing uses it any more.
        if unsafe { (self.of.api.free)(self.address) } == SUCCESS {
            device.buffer_bytes.fetch_sub(self.num_bytes as u64, Ordering::Relaxed);
        }
    }
}
