//! Tracks the peers that have departed from each world of this process.
//!
//! A process may have several worlds. Engines that take turns have one each; and while `doctor` examines small models, each in a world of
//! its own, a world around them connects all processes. A departure from any world ends the wait for the processes that are to meet for the
//! next world; MPI alone would wait for ever. Operations end only because of departures from their own world.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::wire::MpiError;

/// Tells which peers have departed from a world; takes reports of their failures.
pub(super) struct Departed {
    /// Whether all have stopped.
    pub(super) is_stopped: Box<dyn Fn() -> bool + Send>,
    /// Whether a rank has left.
    pub(super) has_left: Box<dyn Fn(usize) -> bool + Send>,
    /// The lowest rank that has left.
    pub(super) first_left: Box<dyn Fn() -> Option<usize> + Send>,
    /// Takes the report of a rank that has failed.
    pub(super) failed: Box<dyn Fn(usize, Vec<u8>) + Send>,
}

/// The worlds of this process that have not ended here, by number.
#[derive(Default)]
pub(super) struct Worlds(BTreeMap<u64, Watched>);

struct Watched {
    departed: Departed,
    /// Since when all have stopped.
    stopped: Option<Instant>,
}

impl Worlds {
    /// Adds a world, which all processes number alike.
    pub(super) fn add(&mut self, world: u64, departed: Departed) {
        self.0.insert(world, Watched { departed, stopped: None });
    }

    /// Removes a world that has ended in this process.
    pub(super) fn remove(&mut self, world: u64) -> Option<Departed> {
        self.0.remove(&world).map(|watched| watched.departed)
    }

    /// Marks the worlds whose ranks have stopped since the last call; returns whether there are any.
    pub(super) fn note_stops(&mut self) -> bool {
        let mut has_stopped = false;
        for watched in self.0.values_mut().filter(|watched| watched.stopped.is_none()) {
            watched.stopped = (watched.departed.is_stopped)().then(Instant::now);
            has_stopped |= watched.stopped.is_some();
        }
        has_stopped
    }

    /// For how long the ranks of a world are known to have stopped.
    pub(super) fn stopped_for(&self, world: u64) -> Option<Duration> {
        Some(self.0.get(&world)?.stopped?.elapsed())
    }

    /// Whether a rank has left a world.
    pub(super) fn has_left(&self, world: u64, rank: usize) -> bool {
        self.0.get(&world).is_some_and(|watched| (watched.departed.has_left)(rank))
    }

    /// A report of ranks of a world.
    pub(super) fn take_report(&self, world: u64, rank: usize, report: Vec<u8>) {
        if let Some(watched) = self.0.get(&world) {
            (watched.departed.failed)(rank, report);
        }
    }

    /// Why the processes of the job can never meet for a next world: one of them has ended in a world that others still have, or has failed there.
    pub(super) fn why_not_all_meet(&self) -> Option<MpiError> {
        self.0.values().find_map(|Watched { departed, .. }| match (departed.first_left)() {
            Some(rank) => Some(MpiError::Left { rank }),
            None => (departed.is_stopped)().then_some(MpiError::Stopped),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departed(first_left: Option<usize>, is_stopped: bool) -> Departed {
        Departed {
            is_stopped: Box::new(move || is_stopped),
            has_left: Box::new(|_| false),
            first_left: Box::new(move || first_left),
            failed: Box::new(|_, _| {}),
        }
    }

    #[test]
    fn a_world_that_has_stopped_stops_no_other() {
        let mut worlds = Worlds::default();
        worlds.add(1, departed(None, true));
        worlds.add(2, departed(Some(3), false));
        assert_eq!([1, 2, 7].map(|world| worlds.stopped_for(world).is_some()), [false; 3]);
        assert!(worlds.note_stops() && !worlds.note_stops());
        assert_eq!([1, 2, 7].map(|world| worlds.stopped_for(world).is_some()), [true, false, false]);
    }

    #[test]
    fn a_peer_that_departed_from_any_world_is_not_waited_for_in_the_next() {
        let mut worlds = Worlds::default();
        assert_eq!(worlds.why_not_all_meet(), None);
        worlds.add(0, departed(None, false));
        assert_eq!(worlds.why_not_all_meet(), None);
        worlds.add(4, departed(Some(2), true));
        assert_eq!(worlds.why_not_all_meet(), Some(MpiError::Left { rank: 2 }));
        // What happened in a world that has ended is over.
        assert!(worlds.remove(4).is_some());
        assert_eq!(worlds.why_not_all_meet(), None);
        worlds.add(5, departed(None, false));
        worlds.add(0, departed(None, true));
        assert_eq!(worlds.why_not_all_meet(), Some(MpiError::Stopped));
    }
}
