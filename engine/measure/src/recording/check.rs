//! Whether a program can have run as recorded: a rank does one thing at a time, in the order of its row, and nothing ends before
//! what it needs.
//!
//! All times are on one clock, so those of different ranks can be compared.

use std::collections::BTreeMap;

use pipezero_schedule::Lane;

use super::fault::{Fault, STEP_NS_MAX};
use super::place::Place;
use super::recorded::Recording;
use super::times::{Shape, Times};

/// Holds every rule against a recorded step.
pub(super) fn check(recording: &Recording<'_>) -> Result<(), Fault> {
    for rank in recording.ranks() {
        let row = Row { recording, rank, times: recording.row_times(rank) };
        row.check_one_at_a_time()?;
        row.check_lanes()?;
        row.check_waits()?;
        row.check_members()?;
    }
    check_step(recording)
}

/// What rows that fit together may still have wrong: where times begin, and how far they go.
fn check_step(recording: &Recording<'_>) -> Result<(), Fault> {
    let started_ns = |rank: usize| recording.row_times(rank).first().map(|times| times.started_ns);
    let first_ns = recording.ranks().filter_map(started_ns).min().unwrap_or(0);
    if first_ns > 0 {
        return Err(Fault::Origin { first_ns });
    }
    let step_ns = recording.step_ns();
    let found_ns = step_ns.max(recording.makespan_ns());
    if found_ns > STEP_NS_MAX {
        return Err(Fault::Long { found_ns });
    }
    // Not the makespan: a step takes what its longest rank takes, and ranks do not begin all at once.
    let rank_ns = |rank: usize| recording.end_ns(rank) - started_ns(rank).unwrap_or(0);
    let longest = recording.ranks().max_by_key(|&rank| rank_ns(rank)).filter(|&rank| rank_ns(rank) > step_ns);
    if let Some(rank) = longest {
        return Err(Fault::Short { step_ns, rank, rank_ns: rank_ns(rank) });
    }
    let takes_time =
        |place: Place| recording.shape(place) == Shape::Compute && recording.times(place).duration_ns() > 0;
    if recording.places().any(takes_time) { Ok(()) } else { Err(Fault::NoTime) }
}

/// The row of a world rank.
struct Row<'a> {
    recording: &'a Recording<'a>,
    rank: usize,
    times: &'a [Times],
}

impl Row<'_> {
    fn place(&self, index: usize) -> Place {
        self.recording.place(self.rank, index)
    }

    fn places(&self) -> impl Iterator<Item = (Place, Times)> {
        self.recording.places_of(self.rank).zip(self.times.iter().copied())
    }

    /// A row is busy with its instructions and, in between, with waits for messages; none of these may overlap.
    fn check_one_at_a_time(&self) -> Result<(), Fault> {
        let overlap = |earlier: usize, later: usize, at_ns: u64| {
            let [earlier, later] = [earlier, later].map(|index| self.place(index));
            Fault::Overlap { earlier, later, at_ns }
        };
        let mut busy: Vec<(u64, u64, usize)> = Vec::with_capacity(2 * self.times.len());
        let mut goes_on_ns = 0;
        for (place, times) in self.places() {
            if times.started_ns < goes_on_ns {
                return Err(overlap(place.index - 1, place.index, times.started_ns));
            }
            let is_message = self.recording.shape(place) == Shape::Message;
            goes_on_ns = if is_message { times.issued_ns } else { times.ended_ns };
            busy.push((times.started_ns, goes_on_ns, place.index));
            busy.extend(is_message.then_some((times.awaited_ns, times.ended_ns, place.index)));
        }
        busy.sort_unstable();
        match busy.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            Some(pair) => Err(overlap(pair[0].2, pair[1].2, pair[1].0)),
            None => Ok(()),
        }
    }

    fn check_lanes(&self) -> Result<(), Fault> {
        let mut last_of_lane: BTreeMap<Lane, (Place, Times)> = BTreeMap::new();
        for (later, times) in self.places().filter(|(place, _)| place.instruction.lane() != Lane::Compute) {
            let before = last_of_lane.insert(later.instruction.lane(), (later, times));
            if let Some((earlier, _)) = before.filter(|(_, before)| before.ended_ns > times.awaited_ns) {
                return Err(Fault::LaneOrder { earlier, later });
            }
        }
        Ok(())
    }

    fn check_waits(&self) -> Result<(), Fault> {
        let rank = self.recording.pipeline_rank(self.rank);
        for (place, Times { started_ns: at_ns, .. }) in self.places() {
            let mut waits = self.recording.program().waits(rank.at(place.index)).iter();
            if let Some(&wait) = waits.find(|&&wait| self.times[wait].ended_ns > at_ns) {
                return Err(Fault::Dependency { place, waits_for: self.place(wait), at_ns });
            }
        }
        Ok(())
    }

    /// Nothing that needs other ranks is done before they have reached it; but a send may be, since its message can wait
    /// for its receiver.
    fn check_members(&self) -> Result<(), Fault> {
        for (place, _) in self.places().filter(|(place, _)| !place.is_send()) {
            let at_ns = self.recording.done_ns(place);
            let mut members = self.recording.members(place).into_iter();
            if let Some(member) = members.find(|&member| self.recording.times(member).started_ns > at_ns) {
                return Err(Fault::Early { place, member, at_ns });
            }
        }
        Ok(())
    }
}
