//! The ranks of this process send the messages of all lanes, size by size and kind by kind.
//!
//! All ranks begin a kind and size together, and each goes through its lanes in one order, so none waits for one that waits for it. Lanes
//! without a common rank are used at the same time, as in a step. Every lane has its small messages before any has large ones, so that what does not
//! work is found whatever the time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pipezero_comm::memory::Allocator;
use pipezero_comm::world::World;
use pipezero_comm::{CommError, Communicator, Group};
use pipezero_config::Links;
use pipezero_plan::costs::MessageKind;
use serde::{Deserialize, Serialize};

use super::exercise::{Outcome, exercise};
use super::lane::Lane;

/// Bytes of messages beside the plan's largest.
const SIZES: [u64; 4] = [1 << 10, 64 << 10, 1 << 20, 16 << 20];

/// Messages of a lane and size that are timed: of small ones and of large ones.
const NUM_TIMED: [usize; 2] = [15, 3];
const SMALL_MAX: u64 = 1 << 20;

/// No message may take longer than that on an emulated link.
const LINK_TIME_MAX: Duration = Duration::from_secs(1);

/// What bounds an exercise; equal in all processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Bounds {
    /// How long all may take.
    pub(super) time: Duration,
    /// Bytes of a message at most.
    pub(super) bytes_max: u64,
}

/// What a rank found in one lane with messages of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    /// The lane, in the order of the plan's.
    pub(super) lane: usize,
    /// The rank.
    pub(super) rank: usize,
    /// Of a message.
    pub(super) bytes: u64,
    /// See [`Outcome`].
    pub(super) fault: Option<String>,
    /// See [`Outcome`].
    pub(super) median: Option<Duration>,
}

/// Why a rank could not go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stopped {
    /// The rank.
    pub(super) rank: usize,
    /// Whether only because another did.
    pub(super) is_stop: bool,
    /// The error.
    pub(super) error: String,
}

/// What this process's ranks found.
pub(super) fn exercised(
    world: &dyn World,
    lanes: &[Lane],
    links: Option<Links>,
    bounds: Bounds,
) -> Vec<Result<Vec<Measured>, Stopped>> {
    let of_rank = |rank: usize| {
        let done = world.communicator(rank).and_then(|mut comm| rounds(&mut *comm, lanes, links, bounds));
        done.map_err(|error| {
            world.stop();
            Stopped { rank, is_stop: error.is_stop(), error: error.to_string() }
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = world.local_ranks().map(|rank| scope.spawn(move || of_rank(rank))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|rank| rank.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// One rank's messages.
pub(super) fn rounds(
    comm: &mut dyn Communicator,
    lanes: &[Lane],
    links: Option<Links>,
    bounds: Bounds,
) -> Result<Vec<Measured>, CommError> {
    let world = Group::new(0..comm.world_size());
    let memory = Allocator::new(Arc::clone(comm.queue()), Arc::default());
    comm.prepare_sums(&memory)?;
    let mut measured = Vec::new();
    let mut pace = Pace::new(bounds.time);
    for round in 0..=SIZES.len() {
        for (kind, bytes) in kinds(lanes, bounds.bytes_max)
            .filter_map(|(kind, largest)| Some((kind, size(kind, largest, round)?)))
        {
            // The rank that measures time says whether there is enough of it; that it says so is a sum of words too.
            let mut goes_on = [u64::from(comm.rank() == 0 && pace.allows(kind, bytes))];
            comm.all_reduce_words(&world, &mut goes_on)?;
            if goes_on == [0] {
                continue;
            }
            pace.begin(kind, bytes);
            for (index, lane) in lanes.iter().enumerate().filter(|(_, lane)| lane.kind == kind) {
                let is_slow = lane.on_its_link(bytes, links) > LINK_TIME_MAX;
                if is_slow || !lane.members.contains(&comm.rank()) {
                    continue;
                }
                let num_timed = NUM_TIMED[usize::from(bytes > SMALL_MAX)];
                let Outcome { fault, median } = exercise(comm, &memory, lane, bytes, num_timed)?;
                measured.push(Measured { lane: index, rank: comm.rank(), bytes, fault, median });
            }
            // When all have ended, so has the time of this kind and size.
            comm.all_reduce_words(&world, &mut [0])?;
            pace.end();
        }
    }
    Ok(measured)
}

/// Each kind once, with the largest message of the plan, or what memory allows.
fn kinds(lanes: &[Lane], bytes_max: u64) -> impl Iterator<Item = (MessageKind, u64)> {
    lanes.chunk_by(|one, next| one.kind == next.kind).map(move |of_kind| {
        let largest = of_kind.iter().map(Lane::largest_bytes).max().unwrap_or(0);
        (of_kind[0].kind, largest.min(bytes_max))
    })
}

/// The size of a round: of those that are smaller than the largest, and then that.
fn size(kind: MessageKind, largest: u64, round: usize) -> Option<u64> {
    if kind == MessageKind::GradientNorm {
        return (round == 0).then_some(largest);
    }
    let smaller: Vec<u64> = SIZES.into_iter().filter(|&bytes| bytes < largest).collect();
    let sizes = if smaller.is_empty() { vec![SIZES[0]] } else { [&smaller[..], &[largest]].concat() };
    sizes.get(round).copied()
}

/// Time that is left, and what the last size of each kind took.
struct Pace {
    deadline: Instant,
    known: Vec<(MessageKind, u64, Duration)>,
    begun: Option<(MessageKind, u64, Instant)>,
}

impl Pace {
    fn new(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, known: Vec::new(), begun: None }
    }

    /// Whether messages of a size will probably end in time, if they take as long for each byte as those before. The first size of a kind is always sent.
    fn allows(&self, kind: MessageKind, bytes: u64) -> bool {
        let Some(&(_, known, took)) = self.known.iter().rev().find(|(of, ..)| *of == kind) else {
            return true;
        };
        let expected = took.as_secs_f64() * (bytes as f64 / known.max(1) as f64).max(1.0);
        Instant::now() + Duration::try_from_secs_f64(expected).unwrap_or(Duration::MAX / 4) < self.deadline
    }

    fn begin(&mut self, kind: MessageKind, bytes: u64) {
        self.begun = Some((kind, bytes, Instant::now()));
    }

    fn end(&mut self) {
        self.known.extend(self.begun.take().map(|(kind, bytes, start)| (kind, bytes, start.elapsed())));
    }
}
