//! Whether moments can be those of a step: a rank does one thing at a time, in the order of its row, and nothing ends
//! before what it needs.
//!
//! All ranks of a process read one clock, so moments of different ranks can be compared.

use std::collections::BTreeMap;

use pipezero_schedule::{CheckedProgram, Instruction, Lane};

use super::fault::{Fault, STEP_NS_MAX};
use super::members::{Site, members};
use super::moments::Moments;
use super::recorded::Recorded;

/// Holds every rule against a recorded step.
pub(super) fn check(program: &CheckedProgram, recorded: &Recorded) -> Result<(), Fault> {
    for rank in 0..recorded.grid().world_size() {
        let row = Row { program, first: Site::new(recorded.grid(), rank, 0), moments: recorded.row(rank) };
        row.check_one_at_a_time()?;
        row.check_lanes()?;
        row.check_waits()?;
        row.check_members(recorded)?;
    }
    check_times(recorded)
}

/// What rows that fit together may still have wrong: where times begin, and how far they go.
fn check_times(recorded: &Recorded) -> Result<(), Fault> {
    let ranks = 0..recorded.grid().world_size();
    let started_ns = |rank: usize| recorded.row(rank).first().map(Moments::started_ns);
    let first_ns = ranks.clone().filter_map(started_ns).min().unwrap_or(0);
    if first_ns > 0 {
        return Err(Fault::Origin { first_ns });
    }
    let found_ns = recorded.step_ns().max(recorded.makespan_ns());
    if found_ns > STEP_NS_MAX {
        return Err(Fault::Long { found_ns });
    }
    // Not the makespan: a step takes what its longest rank takes, and ranks do not begin all at once.
    let rank_ns = |rank: usize| recorded.end_ns(rank) - started_ns(rank).unwrap_or(0);
    let step_ns = recorded.step_ns();
    let longest = ranks.clone().max_by_key(|&rank| rank_ns(rank)).filter(|&rank| rank_ns(rank) > step_ns);
    if let Some(rank) = longest {
        return Err(Fault::Short { step_ns, rank, rank_ns: rank_ns(rank) });
    }
    let takes_time = |moments: &Moments| match moments {
        Moments::Compute { started_ns, ended_ns } => ended_ns > started_ns,
        Moments::Meeting { .. } | Moments::Message(_) => false,
    };
    if ranks.flat_map(|rank| recorded.row(rank)).any(takes_time) { Ok(()) } else { Err(Fault::NoTime) }
}

/// The row of a world rank.
struct Row<'a> {
    program: &'a CheckedProgram,
    first: Site,
    moments: &'a [Moments],
}

impl Row<'_> {
    /// A row is busy with its instructions and, in between, with waits for messages; none of these may overlap.
    fn check_one_at_a_time(&self) -> Result<(), Fault> {
        let row = self.moments;
        let overlap = |earlier: usize, later: usize, at_ns: u64| {
            let [earlier, later] = [earlier, later].map(|index| self.first.at(index).place(self.program));
            Fault::Overlap { earlier, later, at_ns }
        };
        if let Some(index) = (1..row.len()).find(|&at| row[at].started_ns() < row[at - 1].goes_on_ns()) {
            return Err(overlap(index - 1, index, row[index].started_ns()));
        }
        let mut busy: Vec<(u64, u64, usize)> = Vec::with_capacity(2 * row.len());
        for (index, moments) in row.iter().enumerate() {
            busy.push((moments.started_ns(), moments.goes_on_ns(), index));
            busy.extend(moments.message().map(|message| (message.awaited_ns, message.ended_ns, index)));
        }
        busy.sort_unstable();
        match busy.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            Some(pair) => Err(overlap(pair[0].2, pair[1].2, pair[1].0)),
            None => Ok(()),
        }
    }

    fn check_lanes(&self) -> Result<(), Fault> {
        let mut last_of_lane: BTreeMap<Lane, usize> = BTreeMap::new();
        for (index, moments) in self.moments.iter().enumerate() {
            let Some(message) = moments.message() else { continue };
            let site = self.first.at(index);
            let before = last_of_lane.insert(site.instruction(self.program).lane(), index);
            if let Some(before) =
                before.filter(|&before| self.moments[before].ended_ns() > message.awaited_ns)
            {
                let [earlier, later] = [site.at(before), site].map(|site| site.place(self.program));
                return Err(Fault::LaneOrder { earlier, later });
            }
        }
        Ok(())
    }

    fn check_waits(&self) -> Result<(), Fault> {
        for (index, moments) in self.moments.iter().enumerate() {
            let at_ns = moments.started_ns();
            let mut waits = self.program.waits(self.first.pipeline_rank.at(index)).iter();
            if let Some(&wait) = waits.find(|&&wait| self.moments[wait].ended_ns() > at_ns) {
                let [place, waits_for] = [index, wait].map(|index| self.first.at(index).place(self.program));
                return Err(Fault::Dependency { place, waits_for, at_ns });
            }
        }
        Ok(())
    }

    /// Nothing that needs other ranks is done before they have come to it; but a send may be, since its message can lie
    /// in wait for its receiver.
    fn check_members(&self, recorded: &Recorded) -> Result<(), Fault> {
        for (index, moments) in self.moments.iter().enumerate() {
            let site = self.first.at(index);
            let is_send = matches!(site.instruction(self.program), Instruction::Send { .. });
            let at_ns = match moments {
                Moments::Meeting { ended_ns, .. } => *ended_ns,
                Moments::Message(message) if !is_send => message.arrived_ns,
                Moments::Message(_) | Moments::Compute { .. } => continue,
            };
            let mut members = members(self.program, recorded.grid(), site).into_iter();
            if let Some(member) = members.find(|&member| recorded.moments(member).started_ns() > at_ns) {
                let [place, member] = [site, member].map(|site| site.place(self.program));
                return Err(Fault::Early { place, member, at_ns });
            }
        }
        Ok(())
    }
}
