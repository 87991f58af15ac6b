//! Points in queues, by which one queue waits for another.

use std::any::Any;
use std::sync::Arc;

/// A point in a queue: it is reached once everything that the queue was asked before has been computed.
///
/// It may hold something of its device, which is dropped with the last copy of the event.
#[derive(Clone, Debug)]
pub struct Event {
    /// What the device knows it by; none where it was reached at once.
    handle: Option<Arc<dyn Any + Send + Sync>>,
}

impl Event {
    /// A point that was reached already.
    pub const REACHED: Self = Self { handle: None };

    /// A point that its device knows by this.
    pub fn new(handle: Arc<dyn Any + Send + Sync>) -> Self {
        Self { handle: Some(handle) }
    }

    /// What its device knows it by; none where it was reached at once.
    ///
    /// # Panics
    /// If it is of a device that knows its events by something else.
    pub fn handle<H: Any + Send + Sync>(&self) -> Option<Arc<H>> {
        let handle = self.handle.clone()?;
        Some(handle.downcast().expect("a queue is given events of its own device"))
    }
}
