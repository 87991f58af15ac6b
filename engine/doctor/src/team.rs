//! The processes of an examination: what the first decides, and what each has found.
//!
//! Ranks that are processes all go through the same parts in the same order. What depends on time is decided by the process of rank 0 and
//! told to the others, since their clocks would not agree. A part that fails in one process is a finding there; the others go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_comm::CommError;
use pipezero_config::BackendName;
use pipezero_plan::Plan;
use pipezero_run::engine::EngineError;
use pipezero_run::world::{ClockOffset, World, connect_first, world_spec};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long all parts may take together: less than two minutes, with what starts and ends them.
const TIME: Duration = Duration::from_secs(110);

/// How long processes wait for each other at most: one may still compute what the others have done.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// All processes, as one of them sees them.
#[derive(Debug)]
pub(super) struct Team {
    world: Arc<dyn World>,
    begun: Instant,
}

impl Team {
    /// The processes that are to run a plan.
    ///
    /// # Errors
    /// When they cannot be connected, or are not as many as the plan has ranks.
    pub(super) fn of(plan: &Plan) -> Result<Self, EngineError> {
        Self::connected(plan, WAIT_MAX, None, Instant::now())
    }

    /// The same processes for one part, in which none waits longer than this for another.
    ///
    /// # Errors
    /// When one of them does not come.
    pub(super) fn again(&self, plan: &Plan, wait_max: Duration) -> Result<Self, EngineError> {
        Self::connected(plan, wait_max, Some(&*self.world), self.begun)
    }

    fn connected(
        plan: &Plan,
        wait_max: Duration,
        around: Option<&dyn World>,
        begun: Instant,
    ) -> Result<Self, EngineError> {
        let needed = plan.grid().world_size();
        let all = match plan.run().comm.backend {
            BackendName::Threads | BackendName::Nccl => needed,
            BackendName::Mpi => usize::MAX,
        };
        let world =
            connect_first(&world_spec(plan), all, wait_max, around)?.expect("the world is of all processes");
        match world.size() {
            found if found == needed => Ok(Self { world, begun }),
            found => Err(EngineError::WorldSize { needed, found }),
        }
    }

    /// What connects the processes.
    pub(super) fn world(&self) -> &dyn World {
        &*self.world
    }

    /// Whether rank 0 is in this process.
    pub(super) fn is_first(&self) -> bool {
        self.world.local_ranks().start == 0
    }

    /// Since the examination has begun.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The time that is left, or as much of it as a part may take.
    pub(super) fn time_for(&self, part_max: Duration) -> Duration {
        TIME.saturating_sub(self.elapsed()).min(part_max)
    }

    /// What the process of rank 0 gives; what others give does not count.
    pub(super) fn decide<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<T, CommError> {
        Ok(read(&self.world.broadcast(written(own))?))
    }

    /// In the process of rank 0 what each process gives, in the order of their ranks; nothing in the others.
    pub(super) fn gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, CommError> {
        Ok(self.world.gather(written(own))?.iter().map(|message| read(message)).collect())
    }

    /// Waits until all processes have come here.
    pub(super) fn meet(&self) -> Result<(), CommError> {
        self.world.add_words(&mut [0])
    }

    /// See [`World::clock_offset`].
    pub(super) fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.world.clock_offset()
    }
}

fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("what processes tell each other has string keys and finite depth")
}

fn read<T: DeserializeOwned>(message: &[u8]) -> T {
    serde_json::from_slice(message).expect("every process runs this program")
}
