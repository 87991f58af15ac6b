//! What crosses the edge of a device's memory, and what is moved within it.

use cudarc::driver::{CudaStream, DriverError, result};

use crate::element::Element;

/// Copies from the host to the device's address, and waits for it: of pageable memory the driver does not promise to have read it when the call
/// returns (CUDA driver API, "API synchronization behavior").
///
/// # Safety
/// The address has so many bytes, which nobody else uses until the stream has come to the copy.
pub(super) unsafe fn upload<T: Element>(
    stream: &CudaStream,
    values: &[T],
    to: u64,
) -> Result<(), DriverError> {
    if values.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's promise; the values are borrowed until the stream has been waited for.
    unsafe { result::memcpy_htod_async(to, values, stream.cu_stream())? };
    stream.synchronize()
}

/// Copies from the device's address to the host, and waits for it.
///
/// # Safety
/// The address has so many bytes, which nobody writes until the stream has come to the copy.
pub(super) unsafe fn download<T: Element>(
    stream: &CudaStream,
    from: u64,
    values: &mut [T],
) -> Result<(), DriverError> {
    if !values.is_empty() {
        // SAFETY: the caller's promise; the values are borrowed until the stream has been waited for.
        unsafe { result::memcpy_dtoh_async(values, from, stream.cu_stream())? };
    }
    stream.synchronize()
}

/// Copies within a device, or between two that reach each other.
///
/// # Safety
/// Both addresses have so many bytes, which do not overlap, and of which nobody writes the first or uses the second until the stream has come
/// to the copy.
pub(super) unsafe fn copy(
    stream: &CudaStream,
    from: u64,
    to: u64,
    num_bytes: usize,
) -> Result<(), DriverError> {
    // SAFETY: the caller's promise.
    unsafe { result::memcpy_dtod_async(to, from, num_bytes, stream.cu_stream()) }
}

/// Sets bytes to zero.
///
/// # Safety
/// The address has so many bytes, which nobody else uses until the stream has come to it.
pub(super) unsafe fn clear(stream: &CudaStream, to: u64, num_bytes: usize) -> Result<(), DriverError> {
    // SAFETY: the caller's promise.
    unsafe { result::memset_d8_async(to, 0, num_bytes, stream.cu_stream()) }
}
