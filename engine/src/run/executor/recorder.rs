//! What happened to the instructions of one rank, and when.

use std::time::Instant;

/// Something that happened to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instruction's index in the rank's row.
    pub index: usize,
    /// What happened.
    pub kind: EventKind,
    /// When, in nanoseconds since the ranks were started: one clock for all of them.
    pub at_ns: u64,
}

/// What can happen to an instruction, in this order.
///
/// On the compute lane it is started and ends; the norm and the tied addition are awaited in between, once the rank has
/// done its own part. On the other lanes it is started and issued; later it is awaited, arrives and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The rank reached it in its row.
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

/// Keeps events if the step is recorded.
#[derive(Debug, Default)]
pub(crate) enum Recorder {
    #[default]
    Off,
    On {
        epoch: Instant,
        events: Vec<Event>,
        /// The instruction that was started last.
        current: usize,
    },
}

impl Recorder {
    /// A recorder of events with times since a moment; `None` keeps nothing.
    pub(crate) fn new(recorded_since: Option<Instant>) -> Self {
        match recorded_since {
            Some(epoch) => Self::On { epoch, events: Vec::new(), current: 0 },
            None => Self::Off,
        }
    }

    pub(crate) fn record(&mut self, index: usize, kind: EventKind) {
        if let Self::On { epoch, events, current } = self {
            if kind == EventKind::Started {
                *current = index;
            }
            let at_ns = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            events.push(Event { index, kind, at_ns });
        }
    }

    /// Records that the instruction that was started last has done its own part and waits for other ranks.
    pub(crate) fn record_awaited(&mut self) {
        if let Self::On { current, .. } = self {
            let current = *current;
            self.record(current, EventKind::Awaited);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        match self {
            Self::Off => Vec::new(),
            Self::On { events, .. } => std::mem::take(events),
        }
    }
}
