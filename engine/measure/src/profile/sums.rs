//! Sums of what was recorded, one for each entry of a costs file.

use std::collections::BTreeMap;

use pipezero_schedule::InstructionKind;

use super::facts::MessageKey;
use super::mean::Mean;
use crate::recording::Times;

/// What the computes of a kind of unit took.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitTotals(BTreeMap<InstructionKind, Mean>);

impl UnitTotals {
    /// What a kind of compute took; the mean of nothing where there was none.
    pub(super) fn mean(&self, kind: InstructionKind) -> Mean {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, kind: InstructionKind, compute: Times) {
        self.0.entry(kind).or_default().add(compute.duration_ns());
    }
}

/// What a kind of message took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageTotal {
    pub(super) issue: Mean,
    pub(super) delay: Mean,
    pub(super) completion: Mean,
}

impl MessageTotal {
    /// Adds a rank's own time at its end of a transfer: means are over both ends.
    fn add_end(&mut self, of: Times) {
        self.issue.add(of.issue_ns());
        self.completion.add(of.completion_ns());
    }

    /// Adds the own times of the data ranks at a collective of theirs. Of the issues it is the longest: on threads the last
    /// to join carries the exchange out, which makes it the last again next time.
    fn add_collective(&mut self, members: impl Iterator<Item = Times> + Clone) {
        self.issue.add(members.clone().map(Times::issue_ns).max().unwrap_or(0));
        members.for_each(|of| self.completion.add(of.completion_ns()));
    }
}

/// What messages took.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageTotals(BTreeMap<MessageKey, MessageTotal>);

impl MessageTotals {
    /// Adds the ranks' own times at a message; for what ranks do together on their compute lanes these are not kept apart.
    pub(super) fn add_own(&mut self, key: MessageKey, members: impl Iterator<Item = Times> + Clone) {
        let total = self.of(key);
        if key.kind.is_transfer() {
            members.for_each(|of| total.add_end(of));
        } else if !key.kind.is_joint() {
            total.add_collective(members);
        }
    }

    /// Adds how much later than its issue and its link make it a message was there.
    pub(super) fn add_delay(&mut self, key: MessageKey, delay: i128) {
        self.of(key).delay.add_difference(delay);
    }

    /// Adds what a joint instruction took: a delay where there are several ranks, and the rank's own time where it is alone.
    pub(super) fn add_joint(&mut self, key: MessageKey, took: i128) {
        let total = self.of(key);
        let mean = if key.ranks > 1 { &mut total.delay } else { &mut total.issue };
        mean.add_difference(took);
    }

    /// By kind, ranks and bytes, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageKey, MessageTotal)> {
        self.0.iter().map(|(&key, &total)| (key, total))
    }

    /// What the messages of a key took so far.
    fn of(&mut self, key: MessageKey) -> &mut MessageTotal {
        self.0.entry(key).or_default()
    }
}
