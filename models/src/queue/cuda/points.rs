//! Points of a queue: those that others wait for, and those whose times are asked for.

use std::sync::{Arc, PoisonError};

use cudarc::driver::CudaEvent;

use super::clock::timed_event;
use super::queue::CudaQueue;
use crate::error::ModelError;
use crate::queue::{Event, Mark};

impl CudaQueue {
    /// As [`Queue::record`](crate::queue::Queue::record).
    pub(super) fn point(&self) -> Event {
        self.ask("cuEventRecord", |stream| stream.record_event(None))
            .map_or(Event::REACHED, |event| Event::new(Arc::new(event)))
    }

    /// As [`Queue::wait`](crate::queue::Queue::wait).
    pub(super) fn wait_for(&self, event: &Event) {
        if let Some(event) = event.handle::<CudaEvent>() {
            self.ask("cuStreamWaitEvent", |stream| stream.wait(&event));
        }
    }

    /// As [`Queue::has_reached`](crate::queue::Queue::has_reached).
    pub(super) fn has_come_to(&self, event: &Event) -> Result<bool, ModelError> {
        self.device.check()?;
        let Some(event) = event.handle::<CudaEvent>() else { return Ok(true) };
        let is_reached = self.ask("cuEventQuery", |_| event.try_is_complete());
        self.device.check()?;
        Ok(is_reached.unwrap_or(false))
    }

    /// As [`Queue::mark`](crate::queue::Queue::mark).
    pub(super) fn timed_point(&self) -> Mark {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let value = marks.first + marks.events.len() as u64;
        if let Some(event) = self.ask("cuEventRecord", timed_event) {
            marks.events.push(Arc::new(event));
        }
        Mark { value }
    }

    /// As [`Queue::time_ns`](crate::queue::Queue::time_ns).
    pub(super) fn time_of(&self, mark: Mark) -> u64 {
        let event = {
            let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            let place = mark.value.checked_sub(marks.first).expect("a mark that was not forgotten");
            marks.events.get(place as usize).cloned()
        };
        let time = event.and_then(|event| {
            self.ask("cuEventSynchronize", |_| {
                event.synchronize()?;
                self.device.clock.time_ns(&event)
            })
        });
        time.unwrap_or(0)
    }

    /// As [`Queue::forget_marks`](crate::queue::Queue::forget_marks).
    pub(super) fn forget_times(&self) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.first += marks.events.len() as u64;
        marks.events.clear();
    }
}
