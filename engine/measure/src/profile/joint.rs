//! What the norm and the tied addition take from when the last rank has joined.

use pipezero_schedule::Instruction;

use super::facts::{EmulatedDelay, Facts, MessageKey};
use super::sums::MessageTotals;
use crate::recording::{Place, RecordedMessage, Recording};

/// What the ranks' own parts of the norm took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnNorms {
    ns: u128,
    /// Elements of which they added squares.
    elements: u128,
}

impl OwnNorms {
    pub(super) fn of(facts: &Facts<'_>, steps: &[Recording<'_>]) -> Self {
        let mut own = Self::default();
        for step in steps {
            for norm in step.places().filter(|place| place.instruction == Instruction::GradientNorm) {
                let times = step.times(norm);
                own.ns += u128::from(times.awaited_ns - times.started_ns);
                own.elements += u128::from(facts.counted_by(step.pipeline_rank(norm.rank)));
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

/// Adds what a norm or a tied addition of a step took. To a tied addition a rank comes when it starts it. To the norm it would
/// come when it had taken for its own part what such a part takes in the mean.
pub(super) fn add_recorded(
    facts: &Facts<'_>,
    step: &Recording<'_>,
    message: &RecordedMessage,
    own: OwnNorms,
    messages: &mut MessageTotals,
) {
    let own_ns = |member: Place| match member.instruction {
        Instruction::GradientNorm => own.of_elements(facts.counted_by(step.pipeline_rank(member.rank))),
        _ => 0,
    };
    let came_and_ended = message.members.iter().map(|&member| {
        let times = step.times(member);
        [times.started_ns + own_ns(member), times.ended_ns]
    });
    let instruction = message.first().instruction;
    add(facts.key(instruction), facts.emulated(instruction), came_and_ended, messages);
}

/// Adds what ranks took together beside their link: from when the last came to when the last went on.
pub(super) fn add(
    key: MessageKey,
    emulated: EmulatedDelay,
    came_and_ended: impl Iterator<Item = [u64; 2]>,
    messages: &mut MessageTotals,
) {
    let [came, ended] = came_and_ended.fold([0, 0], |all, of| [all[0].max(of[0]), all[1].max(of[1])]);
    messages.add_joint(key, i128::from(ended) - i128::from(came + emulated.total()));
}
