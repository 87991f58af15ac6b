//! What makes one rank fail at exactly one moment: the first call of its compute queue at a phase of a step.
//!
//! A queue is asked for something in every phase, also for what a rank sends or saves, and it is asked in the thread of the rank. So a queue that
//! asks the trap first needs nothing of the engine that users do not have.

mod queue;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pipezero_comm::memory::{Allocator, TrackedBuffer};
use pipezero_comm::world::Position;
use pipezero_comm::{Channel, CommError, Communicator, Group, Operation, Started};
use pipezero_models::{Device, Host, ModelError, Queue};
use pipezero_run::world::Positions;

use crate::Phase;
use queue::TrapQueue;

/// Where a rank fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The rank.
    pub rank: usize,
    /// What it is doing.
    pub phase: Phase,
    /// In which step; of no meaning for saving.
    pub step: u64,
}

/// A rank that fails once.
pub struct Trap {
    moment: Moment,
    /// Whether weights are being saved, which no position says.
    is_saving: Box<dyn Fn() -> bool + Send + Sync>,
    fails: Box<dyn Fn() + Send + Sync>,
    /// Whether the rank's device then copies nothing to the host any more.
    ends_copies: bool,
    positions: OnceLock<Arc<Positions>>,
    failed_at: OnceLock<Instant>,
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trap").field("moment", &self.moment).finish_non_exhaustive()
    }
}

impl Trap {
    /// A trap in which a rank fails by calling `fails`, once it is [armed](Self::arm).
    pub fn new(
        moment: Moment,
        is_saving: impl Fn() -> bool + Send + Sync + 'static,
        fails: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (positions, failed_at) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self {
            moment,
            is_saving: Box::new(is_saving),
            fails: Box::new(fails),
            ends_copies: false,
            positions,
            failed_at,
        })
    }

    /// A trap behind which the rank's device copies nothing to the host.
    pub fn without_copies(moment: Moment, is_saving: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        let trap = Arc::into_inner(Self::new(moment, is_saving, || ())).expect("it is new");
        Arc::new(Self { ends_copies: true, ..trap })
    }

    /// Whether a copy to the host is made.
    fn copies(&self) -> Result<(), ModelError> {
        if self.ends_copies && self.failed_at().is_some() && self.is_on_rank() {
            return Err(ModelError::Device { reason: "it copies nothing to the host".to_owned() });
        }
        Ok(())
    }

    /// Whether this is the rank's thread.
    fn is_on_rank(&self) -> bool {
        let thread = std::thread::current();
        thread.name().is_some_and(|name| name.starts_with(&format!("rank-{}.", self.moment.rank)))
    }

    /// From now on the trap knows where ranks are.
    ///
    /// # Panics
    /// If it knows already.
    pub fn arm(&self, positions: &Arc<Positions>) {
        self.positions.set(Arc::clone(positions)).expect("a trap is armed once");
    }

    /// When the rank failed, if it has.
    pub fn failed_at(&self) -> Option<Instant> {
        self.failed_at.get().copied()
    }

    /// Fails if this is the rank's thread and the rank is there for the first time.
    pub fn pass(&self) {
        let Moment { rank, phase, step } = self.moment;
        let Some(positions) = self.positions.get().filter(|_| self.is_on_rank()) else { return };
        let position = positions.get(rank);
        let is_there = match phase {
            Phase::Saving => position == Position::Idle && (self.is_saving)(),
            phase => phase.has(position) && step_of(position) == Some(step),
        };
        if is_there && self.failed_at.set(Instant::now()).is_ok() {
            (self.fails)();
        }
    }
}

/// The step of a rank that runs its row.
pub fn step_of(position: Position) -> Option<u64> {
    match position {
        Position::At { step, .. } | Position::Waiting { step, .. } | Position::Draining { step, .. } => {
            Some(step)
        }
        _ => None,
    }
}

/// The host, with a trap.
#[derive(Debug)]
pub struct TrapDevice(pub Arc<Trap>);

impl Device for TrapDevice {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        Ok(Arc::new(TrapQueue { inner: Host.queue()?, trap: Arc::clone(&self.0) }))
    }

    fn computes_in(&self, element: pipezero_models::ElementType) -> bool {
        Host.computes_in(element)
    }
}

/// A communicator whose rank computes on a queue with a trap.
#[derive(Debug)]
pub struct TrapCommunicator {
    inner: Box<dyn Communicator>,
    queue: Arc<dyn Queue>,
    trap: Arc<Trap>,
}

impl TrapCommunicator {
    /// Of this communicator.
    pub fn new(inner: Box<dyn Communicator>, trap: Arc<Trap>) -> Self {
        let queue = TrapQueue { inner: Arc::clone(inner.queue()), trap: Arc::clone(&trap) };
        Self { inner, queue: Arc::new(queue), trap }
    }
}

impl Communicator for TrapCommunicator {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn world_size(&self) -> usize {
        self.inner.world_size()
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started {
        self.trap.pass();
        self.inner.start(members, channel, operation, buffer)
    }

    fn prepare_sums(&mut self, memory: &Allocator) -> Result<(), CommError> {
        self.inner.prepare_sums(memory)
    }

    fn finish(&mut self) -> Result<(), CommError> {
        self.inner.finish()
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.inner.all_reduce_words(group, words)
    }
}
