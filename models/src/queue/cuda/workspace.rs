//! Memory in which the library computes products that cannot do without.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, DriverError, result, sys};

/// Bytes that a product may take beside its matrices. The fast algorithms that multiply by GELU's derivative take 131 on a GPU of 132
/// multiprocessors; other products need none.
pub(super) const WORKSPACE_BYTES: usize = 256;

/// Queues of a device that may multiply at once: one for each rank on it.
const NUM_WORKSPACES: usize = 256;

/// The workspaces of a device's queues: one allocation, made with the device, so that no run needs memory for them later. What it takes is
/// the library's, and in no plan.
#[derive(Debug)]
pub(super) struct Workspaces {
    context: Arc<CudaContext>,
    address: sys::CUdeviceptr,
    /// Nobody's. Who needs one gets the one that was given back first, so that what its last queue was asked for is long done.
    free: Mutex<VecDeque<usize>>,
}

impl Workspaces {
    /// In a context, which is bound to this thread.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        // SAFETY: the context is bound; the library reads nothing that it has not written.
        let address = unsafe { result::malloc_sync(NUM_WORKSPACES * WORKSPACE_BYTES)? };
        let free = Mutex::new((0..NUM_WORKSPACES).collect());
        Ok(Self { context: Arc::clone(context), address, free })
    }
}

impl Drop for Workspaces {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated by `malloc_sync` and is freed once; the driver waits for what is under way on the device.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// A queue's workspace: its products use it one after the other.
#[derive(Debug)]
pub(super) struct Workspace {
    of: Arc<Workspaces>,
    number: usize,
}

impl Workspace {
    /// # Errors
    /// Where as many queues of the device have one as may.
    pub(super) fn new(workspaces: &Arc<Workspaces>) -> Result<Self, String> {
        let mut free = workspaces.free.lock().unwrap_or_else(PoisonError::into_inner);
        let number = free
            .pop_front()
            .ok_or_else(|| format!("of the queues of a GPU no more than {NUM_WORKSPACES} may multiply"))?;
        drop(free);
        Ok(Self { of: Arc::clone(workspaces), number })
    }

    /// Where it begins.
    pub(super) fn address(&self) -> u64 {
        self.of.address + (self.number * WORKSPACE_BYTES) as u64
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let mut free = self.of.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push_back(self.number);
    }
}
