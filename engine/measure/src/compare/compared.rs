//! A time as it was predicted and as it was measured.

use serde::Serialize;

/// A time as it was predicted and as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Nanoseconds.
    pub predicted_ns: u64,
    /// Nanoseconds.
    pub measured_ns: u64,
    /// `predicted / measured - 1`; null where nothing was measured to take time.
    pub error: Option<f64>,
}

impl Compared {
    /// Both times.
    pub(crate) fn new(predicted_ns: u64, measured_ns: u64) -> Self {
        let error = (measured_ns > 0).then(|| predicted_ns as f64 / measured_ns as f64 - 1.0);
        Self { predicted_ns, measured_ns, error }
    }
}
