//! Which ranks of a job this process has.

use std::ops::Range;

use crate::host::Launched;

/// This process's part in the job, if it is one of several.
pub(super) struct Job<'a> {
    pub(super) launched: Option<&'a Launched>,
}

impl Job<'_> {
    /// The launcher, where ranks are processes.
    pub(super) fn of_processes(&self) -> Option<&Launched> {
        // A process that is alone has all ranks.
        self.launched.filter(|launched| launched.size > 1)
    }

    /// Which of these ranks of the job this process has: the first of them where it has all.
    pub(super) fn rank_in(&self, ranks: &Range<usize>) -> Option<usize> {
        match self.of_processes() {
            Some(launched) => ranks.contains(&launched.rank).then(|| launched.rank - ranks.start),
            None => Some(0),
        }
    }

    /// The rank that it has of these where ranks are processes; beyond all where it has none of them.
    pub(super) fn rank_of_several(&self, ranks: &Range<usize>) -> Option<usize> {
        self.of_processes().map(|_| self.rank_in(ranks).unwrap_or(usize::MAX))
    }

    /// Whether this process speaks for an engine with these ranks, and writes what it leaves.
    pub(super) fn speaks_for(&self, ranks: &Range<usize>) -> bool {
        self.rank_in(ranks) == Some(0)
    }
}
