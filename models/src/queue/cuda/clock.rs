//! The one clock of a device's queues: times of events after a first one, which is moved along.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaEvent, DriverError, sys};

/// What the clocks of all devices are counted from. They agree up to the time that the host takes to see that a device has passed an event.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What times are counted from.
pub(super) struct Clock {
    origin: Mutex<Origin>,
}

struct Origin {
    event: Arc<CudaEvent>,
    /// When it was passed.
    ns: u64,
}

/// The driver gives the time between two events in milliseconds as an f32, which after so many is exact to a microsecond no more.
const MILLISECONDS_MAX: f32 = 4000.0;

impl Clock {
    pub(super) fn start(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let stream = context.new_stream()?;
        let event = timed_event(&stream)?;
        event.synchronize()?;
        Ok(Self { origin: Mutex::new(Origin { event: Arc::new(event), ns: Self::now_ns() }) })
    }

    /// What it is now on the clocks of all devices.
    pub(super) fn now_ns() -> u64 {
        // Not 0 at first: marks may have been passed a little before a clock begins.
        u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1_000_000_000)
    }

    /// When an event was passed, which has been waited for.
    pub(super) fn time_ns(&self, event: &Arc<CudaEvent>) -> Result<u64, DriverError> {
        let mut origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        let milliseconds = origin.event.elapsed_ms(event)?;
        let ns = origin.ns.saturating_add_signed((f64::from(milliseconds) * 1e6).round() as i64);
        if milliseconds > MILLISECONDS_MAX {
            *origin = Origin { event: Arc::clone(event), ns };
        }
        Ok(ns)
    }
}

/// An event with a time, behind what a stream was asked for.
pub(super) fn timed_event(stream: &cudarc::driver::CudaStream) -> Result<CudaEvent, DriverError> {
    stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
}
