//! What a process knows of the others: what the coordinator has said.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pipezero_models::Host;

use super::super::Positions;
use super::frame::{Exchange, FromCoordinator};

/// Messages of the coordinator.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The ranks of each process, once all are there.
    pub(super) processes: Option<Vec<Range<usize>>>,
    pub(super) refused: Option<String>,
    /// Exchanges that this process has begun.
    pub(super) num_begun: u64,
    /// What exchanges give, by number, or the first rank of a process that has ended or stopped without its part.
    pub(super) taken: BTreeMap<u64, Result<Vec<Vec<u8>>, usize>>,
    pub(super) mismatch: Option<(usize, Exchange, Exchange)>,
    pub(super) time_ns: Option<u64>,
    pub(super) is_stopped: bool,
    /// By this process itself: then it takes part in no more exchanges. If another process has stopped, what it gave before still reaches
    /// this one, and the coordinator says of each exchange whether it is complete.
    pub(super) has_stopped: bool,
    /// By another process, which has said so.
    pub(super) was_stopped: bool,
    /// By the first rank of a process.
    pub(super) reports: BTreeMap<usize, Vec<u8>>,
    /// First ranks of processes that have ended.
    pub(super) ended: BTreeSet<usize>,
    /// One of them has not said that it ends: something has ended it.
    pub(super) has_lost_some: bool,
    /// The coordinator has said that it ends.
    pub(super) is_over: bool,
    /// The connection is closed.
    pub(super) is_cut: bool,
}

impl Known {
    /// Whether the process of these ranks has.
    pub(super) fn has_ended(&self, ranks: &Range<usize>) -> bool {
        self.ended.contains(&ranks.start) || (self.is_cut && ranks.contains(&0))
    }

    /// Whether a rank of any process has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.is_stopped || self.has_lost_some || !self.reports.is_empty()
    }

    /// Takes note of a frame, in the process with the ranks `own`.
    pub(super) fn note(&mut self, frame: FromCoordinator, own: &Range<usize>, positions: &Positions) {
        match frame {
            FromCoordinator::Begin(processes) => self.processes = Some(processes),
            FromCoordinator::Refuse(reason) => self.refused = Some(reason),
            FromCoordinator::Take { number, messages } => {
                self.taken.insert(number, Ok(messages));
            }
            FromCoordinator::Lost { number, first_rank } => {
                self.taken.insert(number, Err(first_rank));
            }
            FromCoordinator::Mismatch { rank, exchange, expected } => {
                self.mismatch = Some((rank, exchange, expected))
            }
            FromCoordinator::Time(ns) => self.time_ns = Some(ns),
            FromCoordinator::Positions(of_processes) => {
                for (first_rank, of_ranks) in
                    of_processes.into_iter().filter(|(first, _)| *first != own.start)
                {
                    for (rank, position) in (first_rank..).zip(of_ranks) {
                        positions.set(rank, &Host, position);
                    }
                }
            }
            FromCoordinator::Stop => (self.is_stopped, self.was_stopped) = (true, true),
            FromCoordinator::Report { first_rank, report } => {
                self.reports.insert(first_rank, report);
            }
            FromCoordinator::Ended { first_rank, has_said_so } => {
                self.has_lost_some |= !has_said_so;
                self.ended.insert(first_rank);
            }
            FromCoordinator::EndOfCoordinator => self.is_over = true,
        }
    }
}
