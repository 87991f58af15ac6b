//! Requests of a rank to the progress thread, and how the rank waits for their outcome.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::announcement::Identity;
use crate::error::CommError;
use crate::exchange::Payload;
use crate::operation::Operation;

/// One rank's part of an operation.
#[derive(Debug)]
pub(super) struct Order {
    /// The number of its world.
    pub(super) world: u64,
    /// The rank of the job, by which MPI knows a process, that is rank 0 of the world.
    pub(super) first: usize,
    pub(super) identity: Identity,
    /// World ranks.
    pub(super) members: Vec<usize>,
    /// Which of them the rank is.
    pub(super) position: usize,
    pub(super) operation: Operation,
    pub(super) payload: Payload,
    pub(super) outcome: Arc<Outcome>,
}

/// The place into which the progress thread puts the result of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    result: Option<Result<Payload, CommError>>,
    /// Members that have not said that they have started.
    missing: Vec<usize>,
}

impl Outcome {
    /// Of an operation between these members, from `position`.
    pub(super) fn of(members: &[usize], position: usize) -> Self {
        let others = members.iter().enumerate().filter(|(index, _)| *index != position);
        let missing = others.map(|(_, &rank)| rank).collect();
        Self { state: Mutex::new(State { result: None, missing }), changed: Condvar::new() }
    }

    /// A member has started it.
    pub(super) fn heard_of(&self, rank: usize) {
        self.state().missing.retain(|&missing| missing != rank);
    }

    /// Members that have not said that they have started.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.state().missing.clone()
    }

    /// The operation is over for this rank.
    pub(super) fn give(&self, result: Result<Payload, CommError>) {
        self.state().result = Some(result);
        self.changed.notify_all();
    }

    /// Waits until the operation is over.
    pub(super) fn wait(&self, operation: &Operation, timeout: Duration) -> Result<Payload, CommError> {
        let start = Instant::now();
        let waited = self.changed.wait_timeout_while(self.state(), timeout, |state| state.result.is_none());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.result.take().unwrap_or_else(|| {
            let (operation, missing) = (operation.to_string(), state.missing.clone());
            Err(CommError::Timeout { waited: start.elapsed(), operation, missing })
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
