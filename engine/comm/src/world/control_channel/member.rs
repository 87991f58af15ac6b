//! The participants of a control channel.

use std::ops::Range;
use std::time::Duration;

use pipezero_files::host::JobSecret;

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Member {
    /// The program and its version: the same in all processes.
    pub program: String,
    /// The secret that all of them prove to know when they connect; `None` in a job without one.
    pub secret: Option<JobSecret>,
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
    pub(crate) fn of_process(
        (program, secret): (String, Option<JobSecret>),
        [rank, world_size]: [usize; 2],
        timeout: Duration,
    ) -> Self {
        let (ranks, start_timeout) = (rank..rank + 1, timeout.max(START_TIME));
        Self { program, secret, world_size, ranks, timeout, start_timeout }
    }

    /// The same, of processes that have found each other before: they have started, and have only to come.
    pub(crate) fn again(self) -> Self {
        Self { start_timeout: self.timeout, ..self }
    }
}
