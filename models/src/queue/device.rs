//! What computes.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{KernelTime, Queue};
use crate::element::ElementType;
use crate::error::ModelError;

/// What computes, and in whose memory buffers lie ([`Queue::zeros`]).
pub trait Device: Debug + Send + Sync {
    /// A queue of its own, which waits for no other.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError>;

    /// Whether its kernels take elements of this type. Units [convert](crate::Unit::with_precision) others from and to `f32`.
    fn computes_in(&self, element: ElementType) -> bool {
        element == ElementType::F32
    }

    /// Its own memory; `None` where its buffers are in the host's.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    fn memory(&self) -> Result<Option<MemoryInUse>, ModelError> {
        Ok(None)
    }

    /// Times every kernel that its queues are asked for, until [`Device::stop_kernel_times`]. A step takes a little longer meanwhile. A device that cannot does nothing.
    fn start_kernel_times(&self) {}

    /// The kernels since [`Device::start_kernel_times`], in the order of their first calls, once all have been computed; `None` where the device
    /// cannot time them.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    fn stop_kernel_times(&self) -> Result<Option<Vec<KernelTime>>, ModelError> {
        Ok(None)
    }
}

/// A device's own memory, and who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInUse {
    /// All that it has.
    pub total_bytes: u64,
    /// What nobody uses.
    pub free_bytes: u64,
    /// What was asked for as buffers ([`Queue::zeros`]). The rest is the driver's, the libraries' and other programs'.
    pub buffer_bytes: u64,
}

/// A number that no other device of the process has, of whichever kind: by it buffers know whose they are.
pub(super) fn next_device_number() -> u64 {
    static NUM_DEVICES: AtomicU64 = AtomicU64::new(0);
    NUM_DEVICES.fetch_add(1, Ordering::Relaxed)
}
