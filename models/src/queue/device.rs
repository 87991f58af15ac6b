//! What computes.

use std::fmt::Debug;
use std::sync::Arc;

use super::Queue;
use crate::error::ModelError;

/// What computes, and in whose memory buffers lie ([`Queue::zeros`]).
pub trait Device: Debug + Send + Sync {
    /// A queue of its own, which waits for no other.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError>;
}
