//! Work that proceeds at rates which change: what is left of it, and what ends next.
//!
//! Rates change only between ticks: what begins and ends at one tick is noted, and [`Progress::settle`] then works out
//! the rates of what that touched. So nothing depends on the order in which a tick's events are taken.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A time that is not known yet.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What can be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The end of a work, by its number.
    Work(u32),
    /// The message that a rank waits for has arrived, by the rank.
    Arrival(u32),
    /// The members of a synchronization go on, by its number.
    Synchronization(u32),
}

#[derive(Clone, Copy, Default)]
struct Work {
    /// Parts of ticks, as of `since`.
    remaining: u128,
    since: u64,
    /// Parts a tick; 0 until it is settled for the first time.
    rate: u64,
    /// When it ends at this rate; what the agenda says of other times is out of date.
    end: u64,
    is_under_way: bool,
    is_touched: bool,
}

/// All work of a cluster, and the agenda.
pub(super) struct Progress {
    scale: u64,
    works: Vec<Work>,
    touched: Vec<u32>,
    agenda: BinaryHeap<Reverse<(u64, Due)>>,
    now: u64,
}

impl Progress {
    /// `num_works` works, none of them under way, in ticks of `scale` parts.
    pub(super) fn new(num_works: usize, scale: u64) -> Self {
        Self {
            scale,
            works: vec![Work::default(); num_works],
            touched: Vec::new(),
            agenda: BinaryHeap::new(),
            now: 0,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Begins a work that takes `ticks` at full speed; it ends with [`Due::Work`].
    pub(super) fn begin(&mut self, number: usize, ticks: u64) {
        let work = &mut self.works[number];
        work.remaining = u128::from(ticks) * u128::from(self.scale);
        (work.since, work.rate, work.end, work.is_under_way) = (self.now, 0, UNKNOWN, true);
        self.touch(number);
    }

    /// Notes that a work's rate may change.
    pub(super) fn touch(&mut self, number: usize) {
        let work = &mut self.works[number];
        if work.is_under_way && !work.is_touched {
            work.is_touched = true;
            self.touched.push(number as u32);
        }
    }

    /// Notes what is due `ticks` from now, independent of rates.
    pub(super) fn after(&mut self, ticks: u64, due: Due) {
        self.agenda.push(Reverse((self.now + ticks, due)));
    }

    /// Gives all that was touched its rate, in parts a tick.
    pub(super) fn settle(&mut self, rate: impl Fn(usize) -> u64) {
        for number in self.touched.drain(..) {
            let work = &mut self.works[number as usize];
            work.is_touched = false;
            if !work.is_under_way {
                continue;
            }
            let rate = rate(number as usize);
            if rate == work.rate {
                continue;
            }
            let done = u128::from(self.now - work.since) * u128::from(work.rate);
            work.remaining = work.remaining.saturating_sub(done);
            (work.since, work.rate) = (self.now, rate);
            let end = self.now + work.remaining.div_ceil(u128::from(rate)) as u64;
            if end != work.end {
                work.end = end;
                self.agenda.push(Reverse((end, Due::Work(number))));
            }
        }
    }

    /// Goes on to the next tick at which something is due, if that is not after `until`, and takes it.
    pub(super) fn next(&mut self, until: u64) -> Option<Due> {
        while self.agenda.peek().is_some_and(|Reverse((time, _))| *time <= until) {
            let Reverse((time, due)) = self.agenda.pop()?;
            if self.is_current(time, due) {
                self.now = time;
                return Some(due);
            }
        }
        None
    }

    /// Whether an end still holds; the work is then no longer under way.
    fn is_current(&mut self, time: u64, due: Due) -> bool {
        let Due::Work(number) = due else { return true };
        let work = &mut self.works[number as usize];
        let is_current = work.is_under_way && work.end == time;
        if is_current {
            work.is_under_way = false;
        }
        is_current
    }
}
