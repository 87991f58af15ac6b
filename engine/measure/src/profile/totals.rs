//! Everything that a costs file holds, summed over recorded steps.

use pipezero_schedule::Instruction;

use super::delays;
use super::facts::Facts;
use super::joint::{self, OwnNorms};
use super::mean::Mean;
use super::sums::{MessageTotals, UnitTotals};
use crate::recording::{RecordedMessage, Recording, computed_unit};

/// Everything that was measured.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    /// By [`Facts::keys`].
    pub(super) units: Vec<UnitTotals>,
    pub(super) messages: MessageTotals,
    pub(super) own_norms: OwnNorms,
    pub(super) step_overhead: Mean,
}

impl Totals {
    pub(super) fn of(facts: &Facts<'_>, steps: &[Recording<'_>]) -> Self {
        let mut totals = Self {
            units: vec![UnitTotals::default(); facts.keys.len()],
            messages: MessageTotals::default(),
            own_norms: OwnNorms::of(facts, steps),
            step_overhead: Mean::default(),
        };
        steps.iter().for_each(|step| totals.add(facts, step));
        totals
    }

    /// What a compute of a unit takes in the mean, nanoseconds; `None` of all else.
    pub(super) fn of_compute(&self, facts: &Facts<'_>, instruction: Instruction) -> Option<u64> {
        self.units[facts.key_of(computed_unit(instruction)?)].mean(instruction.kind()).get()
    }

    fn add(&mut self, facts: &Facts<'_>, step: &Recording<'_>) {
        for place in step.places() {
            if let Some(unit) = computed_unit(place.instruction) {
                self.units[facts.key_of(unit)].add(place.instruction.kind(), step.times(place));
            }
        }
        let messages: Vec<RecordedMessage> = step.messages().collect();
        for message in &messages {
            let key = facts.key(message.first().instruction);
            self.messages.add_own(key, message.members.iter().map(|&member| step.times(member)));
            if message.kind.is_joint() {
                joint::add_recorded(facts, step, message, self.own_norms, &mut self.messages);
            }
        }
        delays::add_step(facts, step, messages, &mut self.messages);
        self.step_overhead.add_difference(i128::from(step.step_ns()) - i128::from(step.makespan_ns()));
    }
}
