//! The clocks of several processes, put onto that of rank 0's.
//!
//! How far a clock is ahead is known only within an error, but the step itself says more: nothing that needs other ranks is done before
//! they have come to it (Lamport, *Time, clocks, and the ordering of events in a distributed system*, 1978). Each clock gets the middle
//! of what both leave open.

use std::collections::BTreeMap;
use std::ops::Range;

use pipezero_comm::world::ClockOffset;

use super::recorded::Recording;
use super::times::Times;

/// The clock of a process.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The world ranks whose times it reads.
    pub(super) ranks: Range<usize>,
    /// What it shows when these times are zero.
    pub(super) zero_ns: u64,
    /// How far it is ahead of the first process's.
    pub(super) offset: ClockOffset,
}

impl Recording<'_> {
    /// Puts times by these clocks, the first of which is that of rank 0, onto one that begins with the first of them. Where no offsets
    /// within the errors would do, they are taken as they were estimated, and the check will find what is wrong.
    pub(super) fn put_on_one_clock(&mut self, clocks: &[Clock]) {
        if clocks.len() < 2 {
            return;
        }
        let zeros_ns = self.zeros(clocks);
        let start_ns = |clock: usize| {
            let rows = &self.times[clocks[clock].ranks.clone()];
            rows.iter().flatten().map(|times| zeros_ns[clock] + i128::from(times.started_ns)).min()
        };
        let first_ns = (0..clocks.len()).filter_map(start_ns).min().unwrap_or(0);
        for (clock, zero_ns) in clocks.iter().zip(zeros_ns) {
            for times in self.times[clock.ranks.clone()].iter_mut().flatten() {
                let on_one_clock = |ns: u64| i128::from(ns) + zero_ns - first_ns;
                *times = times.shifted(|ns| u64::try_from(on_one_clock(ns)).unwrap_or(u64::MAX));
            }
        }
    }

    /// What the first process's clock showed when each clock's times were zero.
    fn zeros(&self, clocks: &[Clock]) -> Vec<i128> {
        let estimate = |clock: &Clock| clock.offset.on_the_other(clock.zero_ns);
        let error = |clock: &Clock| i128::from(clock.offset.error_ns);
        let mut latest: Vec<i128> = clocks.iter().map(|clock| estimate(clock) + error(clock)).collect();
        let mut earliest: Vec<i128> = clocks.iter().map(|clock| estimate(clock) - error(clock)).collect();
        let bounds = self.bounds(clocks);
        // Shortest paths (Bellman and Ford): a bound goes through at most all of the other clocks.
        for _ in clocks {
            for (&(one, other), &bound_ns) in &bounds {
                latest[one] = latest[one].min(latest[other] + bound_ns);
                earliest[other] = earliest[other].max(earliest[one] - bound_ns);
            }
        }
        let is_open = earliest.iter().zip(&latest).all(|(earliest, latest)| earliest <= latest);
        match is_open {
            true => earliest.iter().zip(&latest).map(|(a, b)| (a + b).div_euclid(2)).collect(),
            false => clocks.iter().map(estimate).collect(),
        }
    }

    /// By two clocks of the list: by how much the zero of the one is later than that of the other, at most. Ranks of the one had come to
    /// what ranks of the other ended.
    fn bounds(&self, clocks: &[Clock]) -> BTreeMap<(usize, usize), i128> {
        let clock_of = |rank: usize| clocks.iter().position(|clock| clock.ranks.contains(&rank));
        let mut bounds: BTreeMap<(usize, usize), i128> = BTreeMap::new();
        for place in self.places().filter(|place| !place.is_send()) {
            let done_ns = i128::from(self.done_ns(place));
            for member in self.members(place) {
                let (Some(one), Some(other)) = (clock_of(member.rank), clock_of(place.rank)) else {
                    continue;
                };
                if one != other {
                    let bound_ns = done_ns - i128::from(self.times(member).started_ns);
                    let least = bounds.entry((one, other)).or_insert(bound_ns);
                    *least = bound_ns.min(*least);
                }
            }
        }
        bounds
    }
}

impl Times {
    fn shifted(self, shift: impl Fn(u64) -> u64) -> Self {
        let Self { started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns } = self;
        [started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns].map(shift).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::testing::{costs, plans, step, unchecked};

    /// A step of two processes whose second clock is ahead, which is known only to be so within an error.
    fn put_back(recorded: &Recording<'_>, cut: usize, ahead_ns: u64, offset: ClockOffset) -> bool {
        let num_ranks = recorded.ranks().count();
        let mut times = recorded.times.clone();
        // Each process's times begin with its own first.
        let zero_ns = times[cut..].iter().flatten().map(|times| times.started_ns).min().unwrap();
        times[cut..].iter_mut().flatten().for_each(|times| *times = times.shifted(|ns| ns - zero_ns));
        let mut found = unchecked(recorded.plan(), recorded.step_ns(), times);
        let first = Clock { ranks: 0..cut, zero_ns: 0, offset: ClockOffset::ZERO };
        found
            .put_on_one_clock(&[first, Clock { ranks: cut..num_ranks, zero_ns: zero_ns + ahead_ns, offset }]);
        super::super::check::check(&found).is_ok()
    }

    #[test]
    fn whatever_an_estimate_within_its_error_says_no_message_comes_before_it_was_sent() {
        for plan in plans() {
            let recorded = step(&plan, &costs(&plan, 7, 2_000_000));
            for cut in 1..plan.grid().world_size() {
                for wrong_by in [-900_000_i64, -70, 0, 1, 5_000, 900_000] {
                    let ahead_ns = 7_000_000_000;
                    let estimate = ClockOffset { ahead_ns: ahead_ns as i64 + wrong_by, error_ns: 1_000_000 };
                    assert!(put_back(&recorded, cut, ahead_ns, estimate), "{cut} ranks, wrong by {wrong_by}");
                }
            }
        }
    }

    #[test]
    fn an_estimate_that_is_wrong_beyond_its_error_is_found() {
        let plan = &plans()[1];
        let recorded = step(plan, &costs(plan, 7, 2_000_000));
        for wrong_by in [-1_000_000_000, 1_000_000_000] {
            let estimate = ClockOffset { ahead_ns: 3 + wrong_by, error_ns: 100 };
            assert!(!put_back(&recorded, 2, 3, estimate), "wrong by {wrong_by}");
        }
    }
}
