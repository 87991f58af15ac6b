//! A world in which one link carries nothing any more from a moment on: a second world, whose links are shaped to have next to no bandwidth,
//! carries the messages of that link from then on. Both its ends see the moment at the same message, by their own positions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pipezero_comm::memory::TrackedBuffer;
use pipezero_comm::world::Position;
use pipezero_comm::{Channel, CommError, Communicator, Group, Operation, Started};
use pipezero_config::{Link, Links};
use pipezero_models::Queue;
use pipezero_plan::Plan;
use pipezero_run::world::{Positions, ThreadWorld, World};
use pipezero_schedule::PipelineRank;
use tests::{Altered, Phase};

use super::STEP;

/// So slow that no message of a run arrives within any time-out of a test.
const STOPPED: Link = Link { latency: Duration::ZERO, bytes_per_s: 1.0 };

/// The link that stops, and from when on.
#[derive(Debug)]
pub(super) struct StoppedLink {
    /// Who sends to whom, or the members of a collective.
    pub(super) members: [usize; 2],
    is_collective: bool,
    phase: Phase,
    /// In the row of the members of a collective, where the phase begins.
    first_index: usize,
    saves: AtomicBool,
    /// When its first message was sent that does not arrive.
    failed_at: OnceLock<Instant>,
}

impl StoppedLink {
    /// What a rank of a stage waits for in a phase. Its data rank is that of the rank.
    ///
    /// * forward: the activations from the stage before; in the first stage, which has none, the gather of its weights.
    /// * backward: the gradient from the stage behind; in the last stage, which has none, the gather of its weights for its backwards.
    /// * reduce: the reduction between its data ranks.
    /// * optimizer: an update waits for no link of its own under ZeRO-3, so that these cells are under ZeRO-1, where the updated weights are
    ///   gathered.
    /// * saving: rank 0 gets the weights from the first data rank of each stage; in the first stage, their gather.
    pub(super) fn new(plan: &Plan, phase: Phase, rank: usize) -> Self {
        let grid = plan.grid();
        let (stage, last) = (grid.pipeline_rank(rank), plan.run().parallel.pipeline - 1);
        let group = grid.data_group(rank);
        let neighbour = |stage| grid.rank(stage, grid.data_rank(rank));
        let (members, is_collective) = match phase {
            Phase::Forward if stage > 0 => ([neighbour(stage - 1), rank], false),
            Phase::Backward if stage < last => ([neighbour(stage + 1), rank], false),
            Phase::Saving if stage > 0 => ([group.start, 0], false),
            _ => ([group.start, group.start + 1], true),
        };
        let row = plan.training().row(PipelineRank(stage as u32));
        let at = |index| Position::At { step: STEP, index, instruction: row[index] };
        let first_index = match phase {
            Phase::Backward if is_collective => {
                (0..row.len()).find(|&index| phase.has(at(index))).expect("a backward")
            }
            _ => 0,
        };
        let (saves, failed_at) = (AtomicBool::new(false), OnceLock::new());
        Self { members, is_collective, phase, first_index, saves, failed_at }
    }

    /// Weights are saved from now on.
    pub(super) fn begin_saving(&self) {
        self.saves.store(true, Ordering::Release);
    }

    /// When its first message was sent that does not arrive, if one was.
    pub(super) fn failed_at(&self) -> Option<Instant> {
        self.failed_at.get().copied()
    }

    /// Whether it carries this message, which is started at a position, and does not deliver it.
    fn loses(&self, members: &[usize], channel: Channel, position: Position) -> bool {
        let is_its_channel = match (self.phase, self.is_collective) {
            (Phase::Saving, false) => channel == Channel::Collect,
            (Phase::Reduce, _) => channel == Channel::Reduce,
            (_, true) => channel == Channel::Gather,
            (_, false) => matches!(channel, Channel::Edge(_)),
        };
        let has_begun = match position {
            _ if self.phase == Phase::Saving => self.saves.load(Ordering::Acquire),
            Position::At { step, index, .. } => step == STEP && index >= self.first_index,
            _ => false,
        };
        self.members == members && is_its_channel && has_begun
    }
}

/// The world of threads with such a link.
pub(super) fn world_with(link: &Arc<StoppedLink>, plan: &Plan) -> Altered {
    let (size, timeout) = (plan.grid().world_size(), plan.run().comm.timeout);
    let links = Links { ranks_per_node: 1, near: STOPPED, far: STOPPED, shared: false };
    let [whole, stopped] = [None, Some(links)].map(|links| Arc::new(ThreadWorld::new(size, timeout, links)));
    let (link, positions) = (Arc::clone(link), Arc::clone(whole.positions()));
    let its_ranks = Arc::clone(&stopped);
    let alter = move |whole: Box<dyn Communicator>| -> Result<Box<dyn Communicator>, CommError> {
        let stopped = its_ranks.communicator(whole.rank())?;
        let (link, positions) = (Arc::clone(&link), Arc::clone(&positions));
        Ok(Box::new(LinkCommunicator { link, positions, whole, stopped }))
    };
    Altered::new(whole, alter, move || stopped.stop())
}

/// A rank's communicators in both worlds.
#[derive(Debug)]
struct LinkCommunicator {
    link: Arc<StoppedLink>,
    positions: Arc<Positions>,
    whole: Box<dyn Communicator>,
    stopped: Box<dyn Communicator>,
}

impl Communicator for LinkCommunicator {
    fn rank(&self) -> usize {
        self.whole.rank()
    }

    fn world_size(&self) -> usize {
        self.whole.world_size()
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        self.whole.queue()
    }

    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started {
        if !self.link.loses(members, channel, self.positions.get(self.rank())) {
            return self.whole.start(members, channel, operation, buffer);
        }
        // Later messages are lost too.
        let _ = self.link.failed_at.set(Instant::now());
        self.stopped.start(members, channel, operation, buffer)
    }

    fn finish(&mut self) -> Result<(), CommError> {
        self.whole.finish()
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.whole.all_reduce_words(group, words)
    }
}
