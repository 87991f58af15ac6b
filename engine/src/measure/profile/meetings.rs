//! What the norm and the tied addition take from when the last rank has come.

use pipezero_schedule::{Instruction, InstructionKind, PipelineRank};

use super::facts::{Facts, Imitated, MessageKey};
use super::instants::Instants;
use super::recording::RecordedStep;
use super::totals::MessageTotals;

/// When a rank was at a meeting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    came: u64,
    /// When it went on.
    ended: u64,
}

impl Stay {
    /// At the tied addition, to which a rank has come when it starts it.
    pub(super) fn at_tied(of: Instants) -> Self {
        Self { came: of.started, ended: of.ended }
    }
}

/// One rank at a meeting of a step.
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
    let stay = |member: &Member| Stay {
        came: member.at.started + own.of_elements(facts.counted_by(member.rank)),
        ended: member.at.ended,
    };
    add_of_step(facts, &all, stay, messages);
}

/// Adds what the addition of the tied weight's gradients took of a step, at every place along the data axis.
pub(super) fn add_tied(facts: &Facts<'_>, step: &RecordedStep, messages: &mut MessageTotals) {
    let all = members(facts, step, InstructionKind::AddTied);
    for data_rank in 0..facts.plan.grid().data_degree {
        let here: Vec<Member> = all.iter().copied().filter(|member| member.data_rank == data_rank).collect();
        add_of_step(facts, &here, |member| Stay::at_tied(member.at), messages);
    }
}

fn add_of_step(
    facts: &Facts<'_>,
    members: &[Member],
    stay: impl Fn(&Member) -> Stay,
    messages: &mut MessageTotals,
) {
    let Some(&Member { instruction, .. }) = members.first() else { return };
    add(facts.key(instruction), facts.imitated(instruction), members.iter().map(stay), messages);
}

/// Adds what a meeting took beside its link: from when the last came to when the last went on.
pub(super) fn add(
    key: MessageKey,
    imitated: Imitated,
    stays: impl Iterator<Item = Stay>,
    messages: &mut MessageTotals,
) {
    let [joined, ended] =
        stays.fold([0, 0], |[joined, ended], stay| [joined.max(stay.came), ended.max(stay.ended)]);
    let known = joined + imitated.total();
    messages.add_meeting(key, i128::from(ended) - i128::from(known));
}
