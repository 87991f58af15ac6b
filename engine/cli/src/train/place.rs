//! The job of a task's engines, and which of its ranks this process has.

use std::ops::Range;

use pipezero_config::{EndSignal, JobRanks};
use pipezero_files::host::LaunchedProcess;

use super::apart::Apart;
use crate::output::ProcessOutput;

/// What the engines of a task have in common, once their ranks are connected.
pub(super) struct Job<'a> {
    pub(super) process: Process<'a>,
    /// Which ranks of the job the engines have.
    pub(super) ranks: JobRanks,
    /// What connects all processes of a job whose engines have ranks of their own.
    pub(super) apart: Option<Apart>,
    /// Those that end an engine, of any process.
    pub(super) signals: Vec<EndSignal>,
}

/// This process's part in the job, if it is one of several.
#[derive(Clone, Copy)]
pub(super) struct Process<'a> {
    pub(super) launched: Option<&'a LaunchedProcess>,
}

impl Process<'_> {
    /// The launcher, where ranks are processes.
    pub(super) fn of_processes(&self) -> Option<&LaunchedProcess> {
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

    /// The output of an engine with these ranks.
    pub(super) fn output_of(&self, ranks: &Range<usize>) -> ProcessOutput {
        ProcessOutput::new(self.speaks_for(ranks))
    }
}
