//! What a rank does when it, or another, has stopped: nothing of what it asked NCCL for may stay under way, or its memory could not be freed.

use std::sync::Arc;

use pipezero_models::queue::NcclCommunicator;

use crate::communicator::IsStopped;
use crate::error::CommError;

/// The end of a rank's communication.
pub(super) struct Stop {
    is_stopped: IsStopped,
    connections: Vec<Arc<NcclCommunicator>>,
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("is_stopped", &(self.is_stopped)()).finish_non_exhaustive()
    }
}

impl Stop {
    /// Of a rank with these connections.
    pub(super) fn new(is_stopped: IsStopped, connections: Vec<Arc<NcclCommunicator>>) -> Self {
        Self { is_stopped, connections }
    }

    /// Whether ranks have stopped.
    pub(super) fn is_stopped(&self) -> bool {
        (self.is_stopped)()
    }

    /// Whether the rank may go on; else what is under way is aborted.
    ///
    /// # Errors
    /// [`CommError::Stopped`] once ranks have stopped.
    pub(super) fn check(&self) -> Result<(), CommError> {
        let checked = if self.is_stopped() { Err(CommError::Stopped) } else { Ok(()) };
        self.or_abort(checked)
    }

    /// As [`Stop::check`], and whether all connections are sound.
    ///
    /// # Errors
    /// [`CommError::Device`] for one that is not.
    pub(super) fn check_connections(&self) -> Result<(), CommError> {
        self.check()?;
        let polled = self.connections.iter().try_for_each(|connection| connection.poll());
        self.or_abort(polled.map_err(CommError::from))
    }

    /// What was done, if it was; else what is under way is aborted.
    pub(super) fn or_abort<T>(&self, done: Result<T, CommError>) -> Result<T, CommError> {
        if done.is_err() {
            self.connections.iter().for_each(|connection| connection.abort());
        }
        done
    }
}
