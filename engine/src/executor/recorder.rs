//! The order in which one rank started and ended its instructions: no clock, so tests can rely on it.

/// Something that happened to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instruction's place in the rank's row.
    pub index: usize,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was started: issued to its lane, or begun on the compute lane.
    Started,
    /// It ended: on the compute lane when it returned, on others when it was waited for.
    Ended,
}

/// Keeps events, if anyone asked for them.
#[derive(Debug, Default)]
pub(crate) enum Recorder {
    #[default]
    Off,
    On(Vec<Event>),
}

impl Recorder {
    pub(crate) fn record(&mut self, index: usize, kind: EventKind) {
        if let Self::On(events) = self {
            events.push(Event { index, kind });
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        match self {
            Self::Off => Vec::new(),
            Self::On(events) => std::mem::take(events),
        }
    }
}
