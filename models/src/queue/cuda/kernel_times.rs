//! The time of each call of a device while somebody asks for it: an event before and one behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream, DriverError};

use super::clock::timed_event;
use crate::queue::KernelTime;

/// The timed calls of a device.
#[derive(Default)]
pub(super) struct KernelTimes {
    is_on: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

struct Call {
    kernel: String,
    size: String,
    start: CudaEvent,
    end: CudaEvent,
}

impl KernelTimes {
    /// Times every call from here on.
    pub(super) fn start(&self) {
        self.calls().clear();
        self.is_on.store(true, Ordering::Release);
    }

    /// Before a call: where it begins, while calls are timed.
    pub(super) fn before(&self, stream: &CudaStream) -> Result<Option<CudaEvent>, DriverError> {
        self.is_on.load(Ordering::Acquire).then(|| timed_event(stream)).transpose()
    }

    /// Behind a call that began there.
    pub(super) fn behind(
        &self,
        start: Option<CudaEvent>,
        stream: &CudaStream,
        kernel: &str,
        size: impl FnOnce() -> String,
    ) -> Result<(), DriverError> {
        let Some(start) = start else { return Ok(()) };
        let end = timed_event(stream)?;
        self.calls().push(Call { kernel: kernel.to_owned(), size: size(), start, end });
        Ok(())
    }

    /// Stops timing, and waits for the calls.
    pub(super) fn stop(&self) -> Result<Vec<KernelTime>, DriverError> {
        self.is_on.store(false, Ordering::Release);
        let calls = std::mem::take(&mut *self.calls());
        let times = calls.into_iter().map(|Call { kernel, size, start, end }| {
            end.synchronize()?;
            let ns = (f64::from(start.elapsed_ms(&end)?) * 1e6).round() as u64;
            Ok(KernelTime { kernel, size, num_calls: 1, ns })
        });
        Ok(KernelTime::by_size(times.collect::<Result<Vec<_>, DriverError>>()?))
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
