//! The participants of a control channel.

use std::ops::Range;
use std::time::Duration;

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Member {
    /// The program and its version: the same in all processes.
    pub program: String,
    /// Ranks in all processes.
    pub world_size: usize,
    /// The ranks of this process.
    pub ranks: Range<usize>,
    /// No wait is longer.
    pub timeout: Duration,
    /// But for the one until all ranks are there.
    pub start_timeout: Duration,
}

/// How long processes may take to find each other at least: they start on many hosts.
const START_TIME: Duration = Duration::from_secs(60);

impl Member {
    /// A process with one rank of a world of so many.
    pub(crate) fn of_process(program: String, [rank, world_size]: [usize; 2], timeout: Duration) -> Self {
        Self { program, world_size, ranks: rank..rank + 1, timeout, start_timeout: timeout.max(START_TIME) }
    }

    /// The same, of processes that have found each other before: they have started, and have only to come.
    pub(crate) fn again(self) -> Self {
        Self { start_timeout: self.timeout, ..self }
    }
}
