//! What happened to the instructions of one rank, and when.
//!
//! When is when the rank's compute queue came there: a device runs kernels later than the host asks for them, so the host's clock
//! would tell how fast the host asks. The recorder marks points of the queue while a program runs, and asks when the queue passed
//! them once the program has ended.

use std::sync::Arc;
use std::time::Duration;

use pipezero_models::Queue;
use pipezero_models::queue::Mark;
use pipezero_schedule::Lane;
use serde::{Deserialize, Serialize};

use super::waited::Waited;

/// Something that happened to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// The instruction's index in the rank's row.
    pub index: usize,
    /// What happened.
    pub kind: EventKind,
    /// When, in nanoseconds on the clock of the ranks' device, which may begin at any time.
    pub at_ns: u64,
}

/// What can happen to an instruction, in this order.
///
/// On the compute lane it is started and ends; the norm and the tied addition are awaited in between, once the rank has
/// done its own part. On the other lanes it is started and issued; later it is awaited, arrives and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The rank's compute queue reached it in its row.
    Started,
    /// It is in flight; the row goes on.
    Issued,
    /// The rank waits for it, or for the other ranks that it needs.
    Awaited,
    /// It has arrived, possibly long before.
    Arrived,
    /// It is done: on the other lanes, the rank has used what it brought.
    Ended,
}

impl EventKind {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Started, Self::Issued, Self::Awaited, Self::Arrived, Self::Ended];

    /// As trace files and errors spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Issued => "issued",
            Self::Awaited => "awaited",
            Self::Arrived => "arrived",
            Self::Ended => "ended",
        }
    }
}

/// What was recorded of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// How long the queue took for it.
    pub(super) elapsed: Duration,
    /// How long it waited meanwhile.
    pub(super) waited: Waited,
    /// What happened to its instructions, if that is recorded.
    pub(super) events: Vec<RecordedEvent>,
}

/// Marks of the program that runs. Its lists are used again for the next one.
#[derive(Debug)]
pub(crate) struct Recorder {
    queue: Arc<dyn Queue>,
    /// Where the program begins.
    begins: Mark,
    /// Whether events are kept.
    keeps_events: bool,
    /// The instruction that was started last.
    current: usize,
    events: Vec<(usize, EventKind, Mark)>,
    waits: Vec<Wait>,
}

/// A wait for operations of a lane, or on the compute lane for other ranks at the end of a step.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lane: Lane,
    begins: Mark,
    ends: Mark,
}

/// A wait that has not ended.
#[derive(Debug)]
#[must_use = "a wait that does not end is not counted"]
pub(super) struct OpenWait {
    index: usize,
    lane: Lane,
    begins: Mark,
}

impl Recorder {
    pub(super) fn new(queue: Arc<dyn Queue>) -> Self {
        let (events, waits) = (Vec::new(), Vec::new());
        Self { queue, begins: Mark::default(), keeps_events: false, current: 0, events, waits }
    }

    /// A program begins, with or without events. What was marked since the last one ended is dropped.
    pub(super) fn begin(&mut self, keeps_events: bool) {
        self.queue.forget_marks();
        self.events.clear();
        self.waits.clear();
        self.keeps_events = keeps_events;
        self.begins = self.queue.mark();
    }

    pub(super) fn record(&mut self, index: usize, kind: EventKind) {
        if kind == EventKind::Started {
            self.current = index;
        }
        if self.keeps_events {
            self.events.push((index, kind, self.queue.mark()));
        }
    }

    /// The queue waits for an operation from here on: the instruction at `index` is awaited.
    pub(super) fn begin_wait(&mut self, index: usize, lane: Lane) -> OpenWait {
        let begins = self.queue.mark();
        self.keep(index, EventKind::Awaited, begins);
        OpenWait { index, lane, begins }
    }

    /// The instruction that was started last has done its own part: the queue waits for other ranks from here on.
    pub(super) fn begin_joint_wait(&mut self) -> OpenWait {
        self.begin_wait(self.current, Lane::Compute)
    }

    /// What the queue waited for is there.
    pub(super) fn end_wait(&mut self, OpenWait { index, lane, begins }: OpenWait) {
        let ends = self.queue.mark();
        self.waits.push(Wait { lane, begins, ends });
        if lane != Lane::Compute {
            self.keep(index, EventKind::Arrived, ends);
        }
    }

    fn keep(&mut self, index: usize, kind: EventKind, mark: Mark) {
        if self.keeps_events {
            self.events.push((index, kind, mark));
        }
    }

    /// The program ends here; waits until the queue has come to this point.
    pub(super) fn end(&mut self) -> Recorded {
        let at_ns = |mark| self.queue.time_ns(mark);
        let between = |begins, ends| Duration::from_nanos(at_ns(ends).saturating_sub(at_ns(begins)));
        let elapsed = between(self.begins, self.queue.mark());
        let mut waited = Waited::default();
        for &Wait { lane, begins, ends } in &self.waits {
            waited.add(lane, between(begins, ends));
        }
        let event = |&(index, kind, mark)| RecordedEvent { index, kind, at_ns: at_ns(mark) };
        Recorded { elapsed, waited, events: self.events.iter().map(event).collect() }
    }
}
