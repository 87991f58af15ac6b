//! What let an instruction start: the row of its rank, which computes, issues messages and completes them one
//! after the other; the other end of its transfer; or its link.

use alloc::vec::Vec;

use super::rows::RowFacts;
use super::why::Why;
use crate::check::CheckedProgram;
use crate::id::InstructionId;
use crate::instruction::{Instruction, Lane};
use crate::simulate::costs::Costs;
use crate::simulate::timeline::{Timeline, is_synchronization};

/// What let an instruction start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// What it waited for; `None` for the beginning of the step.
    pub(super) waited_for: Option<InstructionId>,
    /// When that was over.
    pub(super) time: u64,
    pub(super) why: Why,
    /// The instruction at which a rank spent the time between on messages.
    pub(super) handled_at: InstructionId,
    /// When the instruction could start for it, that included.
    lets_start: u64,
}

pub(super) struct Causes<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    timeline: &'a Timeline,
    /// `[rank]`
    rows: Vec<RowFacts>,
}

impl<'a> Causes<'a> {
    pub(super) fn new(program: &'a CheckedProgram, costs: &'a Costs, timeline: &'a Timeline) -> Self {
        let ranks = program.ranks();
        let rows = ranks.map(|rank| RowFacts::new(program, costs, rank)).collect();
        Self { program, costs, timeline, rows }
    }

    /// What the end of the step waited for.
    pub(super) fn of_end(&self) -> Option<Cause> {
        let ranks = self.program.ranks();
        let last = ranks.reduce(|a, b| if self.timeline.end(b) > self.timeline.end(a) { b } else { a })?;
        let index = self.program.row(last).len();
        Some(self.resolved(self.of_row(last.at(index))))
    }

    /// What let an instruction start: the latest of what it had to wait for.
    pub(super) fn of(&self, at: InstructionId) -> Cause {
        let other_end = self.program.peer(at).map(|peer| Cause { why: Why::OtherEnd, ..self.of_row(peer) });
        let others = other_end.into_iter().chain(self.of_link(at));
        let later =
            |cause: Cause, other: Cause| if other.lets_start > cause.lets_start { other } else { cause };
        self.resolved(others.fold(self.of_row(at), later))
    }

    /// What the row of a rank waited for before an instruction was issued: the compute before it, or a message that
    /// had to be completed for it.
    fn of_row(&self, at: InstructionId) -> Cause {
        let InstructionId { rank, index } = at;
        let facts = &self.rows[rank.index()];
        let (row, spans) = (self.program.row(rank), self.timeline.row(rank));
        let before = facts.issued_after[index];
        let time = before.map_or(0, |before| spans[before].end);
        let is_needed = |before: usize| index < row.len() && self.program.waits(at).contains(&before);
        let why = match before {
            None => Why::Beginning,
            Some(before) if is_needed(before) => Why::Dependency,
            Some(_) if row.get(index).is_some_and(|of| of.lane() != Lane::Compute) => Why::Row,
            Some(_) => Why::ComputeLane,
        };
        let mut cause = Cause {
            waited_for: before.map(|before| rank.at(before)),
            time,
            why,
            handled_at: at,
            lets_start: time.saturating_add(facts.issuing[index]),
        };
        for &message in &facts.landings[index] {
            let end = spans[message].end;
            if end > cause.lets_start {
                let why = match row[message] {
                    Instruction::Receive { .. } => Why::Message,
                    _ => Why::Dependency,
                };
                cause =
                    Cause { waited_for: Some(rank.at(message)), time: end, why, lets_start: end, ..cause };
            }
            let landing = self.costs.message(row[message]).landing;
            cause.lets_start = cause.lets_start.saturating_add(landing);
        }
        cause
    }

    /// How much of the time between a cause and what it let start its rank spent on messages: all of it, unless that is a
    /// gather or reduction, which waits for every data rank.
    pub(super) fn own_time(&self, cause: Cause, time: u64) -> u64 {
        let InstructionId { rank, index } = cause.handled_at;
        match self.program.row(rank).get(index).map(|of| of.lane()) {
            Some(Lane::Gather | Lane::Reduce) if cause.why == Why::LinkBusy => 0,
            Some(Lane::Gather | Lane::Reduce) => {
                let first = self.rows[rank.index()].issued_after[index].map_or(0, |before| before + 1);
                self.timeline.held(rank, first..index + 1).min(time)
            }
            _ => time,
        }
    }

    /// The message before it on its link, until it no longer occupies that.
    fn of_link(&self, at: InstructionId) -> Option<Cause> {
        let before = at.rank.at(self.rows[at.rank.index()].link_after[at.index]?);
        let instruction = self.program.instruction(before);
        let cost = self.costs.message(instruction);
        let span = self.timeline.span(before);
        let left = match instruction {
            Instruction::Send { .. } => span.end,
            _ => span.end.saturating_sub(cost.latency),
        };
        // What shares its link occupies it for longer.
        let time = span.end.min(span.start.saturating_add(cost.occupied).max(left));
        Some(Cause { waited_for: Some(before), time, why: Why::LinkBusy, handled_at: at, lets_start: time })
    }

    /// A cause that is a norm or tied addition is attributed to the last rank that joined it.
    fn resolved(&self, cause: Cause) -> Cause {
        match cause.waited_for {
            Some(of) if is_synchronization(self.program.instruction(of)) => {
                let last = self.last_to_join(of);
                let why = if last == of { cause.why } else { Why::Synchronization };
                Cause { waited_for: Some(last), why, ..cause }
            }
            _ => cause,
        }
    }

    /// The member of a synchronization that joined it last, after its own part.
    fn last_to_join(&self, own: InstructionId) -> InstructionId {
        let instruction = self.program.instruction(own);
        let members = self.program.ranks().filter_map(|rank| {
            // At most once in a row, near its end.
            let index = self.program.row(rank).iter().rposition(|&of| of == instruction)?;
            Some(rank.at(index))
        });
        let joined = |member: InstructionId| {
            let own_part = match instruction {
                Instruction::GradientNorm => self.costs.own_norm(self.program, member.rank),
                _ => 0,
            };
            self.timeline.span(member).start.saturating_add(own_part)
        };
        members.fold(own, |latest, member| if joined(member) > joined(latest) { member } else { latest })
    }
}
