//! Which processes of a job have been seen, and which of them are missing.
//!
//! `mpirun` starts its processes one after the other, and does not say when one has ended. So a process that was seen and is not there any more is missing.
//! One that was never seen may still begin, or has ended between two looks. It is missing once no other has begun for a while either.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::processes::Process;

/// How often the processes are listed once all have begun: the system lists all of its own.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);
/// How long after one process the next one begins, at the latest.
const BETWEEN_BEGINNINGS: Duration = Duration::from_secs(4);

/// The processes of a job that were seen, and when.
#[derive(Debug)]
pub(super) struct SeenProcesses {
    num_processes: usize,
    begun: BTreeSet<usize>,
    /// When the last one was seen for the first time.
    newest_at: Option<Instant>,
    /// When they were listed last, and which were there.
    listed_at: Option<Instant>,
    present: BTreeSet<usize>,
    /// Since when there is none; from the beginning on, until one has begun.
    none_since: Option<Instant>,
}

impl SeenProcesses {
    /// For processes that are being started now.
    pub(super) fn new(num_processes: usize, now: Instant) -> Self {
        Self {
            num_processes,
            begun: BTreeSet::new(),
            newest_at: None,
            listed_at: None,
            present: BTreeSet::new(),
            none_since: Some(now),
        }
    }

    /// Whether they are to be listed again: often while they begin.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_old = |listed_at| now.duration_since(listed_at) >= BETWEEN_LISTS;
        !self.have_all_begun(now) || self.listed_at.is_none_or(is_old)
    }

    /// Takes note of those that are there now.
    pub(super) fn note(&mut self, left: &[Process], now: Instant) {
        self.listed_at = Some(now);
        self.present = left.iter().map(|process| process.rank).collect();
        let num_before = self.begun.len();
        self.begun.extend(&self.present);
        if self.begun.len() > num_before {
            self.newest_at = Some(now);
        }
        if self.present.is_empty() {
            self.none_since.get_or_insert(now);
        } else {
            self.none_since = None;
        }
    }

    /// Whether any has been seen.
    pub(super) fn has_one_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Whether a rank's process is not there and will not come any more.
    pub(super) fn is_missing(&self, rank: usize, now: Instant) -> bool {
        !self.present.contains(&rank) && (self.begun.contains(&rank) || self.have_all_begun(now))
    }

    /// For how long none has been there.
    pub(super) fn none_for(&self, now: Instant) -> Option<Duration> {
        self.none_since.map(|since| now.duration_since(since))
    }

    fn have_all_begun(&self, now: Instant) -> bool {
        self.begun.len() == self.num_processes
            || self.newest_at.is_some_and(|newest| now.duration_since(newest) > BETWEEN_BEGINNINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::of_rank;

    /// Lists these ranks so many seconds after the start.
    fn note(seen: &mut SeenProcesses, start: Instant, seconds: f32, ranks: &[usize]) -> Instant {
        let now = start + Duration::from_secs_f32(seconds);
        let left: Vec<Process> = ranks.iter().map(|&rank| of_rank(rank)).collect();
        seen.note(&left, now);
        now
    }

    #[test]
    fn who_was_seen_is_missing_at_once_and_who_was_not_once_no_other_begins() {
        let start = Instant::now();
        let mut seen = SeenProcesses::new(3, start);
        let missing = |seen: &SeenProcesses, now| -> Vec<usize> {
            (0..3).filter(|&rank| seen.is_missing(rank, now)).collect()
        };
        let now = note(&mut seen, start, 30.0, &[]);
        assert_eq!((missing(&seen, now), seen.has_one_begun()), (Vec::new(), false));
        let now = note(&mut seen, start, 31.0, &[0]);
        assert_eq!((missing(&seen, now), seen.has_one_begun()), (Vec::new(), true));
        // It begins late, so the third has time too.
        let now = note(&mut seen, start, 34.0, &[0, 2]);
        assert!(missing(&seen, now).is_empty() && seen.is_due(now));
        let now = note(&mut seen, start, 37.0, &[0, 2]);
        assert!(missing(&seen, now).is_empty() && seen.is_due(now));
        let now = note(&mut seen, start, 38.5, &[0, 2]);
        assert_eq!(missing(&seen, now), [1]);
        assert!(!seen.is_due(now) && seen.is_due(now + BETWEEN_LISTS));
        let now = note(&mut seen, start, 39.5, &[0]);
        assert_eq!(missing(&seen, now), [1, 2]);
    }

    #[test]
    fn none_is_there_until_one_begins_and_after_the_last_has_ended() {
        let start = Instant::now();
        let mut seen = SeenProcesses::new(2, start);
        let none_for = |seen: &SeenProcesses, now| seen.none_for(now).map(|time| time.as_secs());
        let now = note(&mut seen, start, 5.0, &[]);
        assert_eq!(none_for(&seen, now), Some(5));
        let now = note(&mut seen, start, 6.0, &[0, 1]);
        assert_eq!(none_for(&seen, now), None);
        let now = note(&mut seen, start, 9.0, &[]);
        assert_eq!(none_for(&seen, now), Some(0));
        let now = note(&mut seen, start, 11.0, &[]);
        assert_eq!(none_for(&seen, now), Some(2));
    }
}
