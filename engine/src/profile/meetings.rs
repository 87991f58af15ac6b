//! What the norm and the tied addition take from when the last rank has come.

use pipezero_schedule::{Instruction, InstructionKind, PipelineRank};

use super::facts::Facts;
use super::instants::Instants;
use super::recording::RecordedStep;
use super::totals::MessageTotals;

/// One rank at a meeting.
#[derive(Clone, Copy, Debug)]
struct Member {
    rank: PipelineRank,
    data_rank: usize,
    instruction: Instruction,
    at: Instants,
}

/// Every rank whose row has an instruction of a kind, once at most.
fn members(facts: &Facts<'_>, step: &RecordedStep, kind: InstructionKind) -> Vec<Member> {
    let mut found = Vec::new();
    for rank in facts.pipeline_ranks() {
        let row = facts.program().row(rank);
        let Some(index) = row.iter().rposition(|instruction| instruction.kind() == kind) else { continue };
        for (data_rank, member) in facts.members(rank).enumerate() {
            found.push(Member { rank, data_rank, instruction: row[index], at: step.rows[member][index] });
        }
    }
    found
}

/// What the ranks' own parts of the norm took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnNorms {
    ns: u128,
    /// Elements of which they added squares.
    elements: u128,
}

impl OwnNorms {
    pub(super) fn of(facts: &Facts<'_>, steps: &[RecordedStep]) -> Self {
        let mut own = Self::default();
        for step in steps {
            for Member { rank, at, .. } in members(facts, step, InstructionKind::GradientNorm) {
                own.ns += u128::from(at.awaited - at.started);
                own.elements += u128::from(facts.counted_by(rank));
            }
        }
        own
    }

    /// What one rank takes to add the squares of so many elements.
    pub(super) fn of_elements(self, elements: u64) -> u64 {
        let share = self.ns * u128::from(elements) + self.elements / 2;
        u64::try_from(share.checked_div(self.elements).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// Adds what the norm took of a step, from when the last rank would have come had each taken for its own part what such a part
/// takes in the mean, to when the last went on.
pub(super) fn add_norm(facts: &Facts<'_>, step: &RecordedStep, own: OwnNorms, messages: &mut MessageTotals) {
    let all = members(facts, step, InstructionKind::GradientNorm);
    let came = |member: &Member| member.at.started + own.of_elements(facts.counted_by(member.rank));
    add(facts, &all, came, messages);
}

/// Adds what the addition of the tied weight's gradients took of a step, at every place along the data axis.
pub(super) fn add_tied(facts: &Facts<'_>, step: &RecordedStep, messages: &mut MessageTotals) {
    let all = members(facts, step, InstructionKind::AddTied);
    for data_rank in 0..facts.plan.grid().data_degree {
        let here: Vec<Member> = all.iter().copied().filter(|member| member.data_rank == data_rank).collect();
        add(facts, &here, |member| member.at.started, messages);
    }
}

/// From when the last of them came to when the last went on.
fn add(facts: &Facts<'_>, members: &[Member], came: impl Fn(&Member) -> u64, messages: &mut MessageTotals) {
    let Some(&Member { instruction, .. }) = members.first() else { return };
    let joined = members.iter().map(came).max().unwrap_or(0);
    let ended = members.iter().map(|member| member.at.ended).max().unwrap_or(0);
    let known = joined + facts.imitated(instruction).total();
    messages.add_meeting(facts.key(instruction), i128::from(ended) - i128::from(known));
}
