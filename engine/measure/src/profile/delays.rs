//! How much later than its link alone explains each message arrived, by the ranks that waited for it.
//!
//! Links are followed in the order in which messages set out, since a message may wait for those before it. Only a rank that
//! was waiting before a message could arrive observes when it arrived; for any other it has already arrived.

use std::collections::BTreeMap;

use pipezero_schedule::Lane;

use super::facts::{Facts, MessageKey};
use super::sums::MessageTotals;
use crate::recording::{RecordedMessage, Recording, Times};

/// A wait that begins so soon after a message could arrive counts as one from before: for a rank that issues last and waits at
/// once, it has already arrived.
const AT_ONCE_NS: u64 = 2_000;

/// Adds how much later than at the time `known` a message arrived, by each rank that can see it.
pub(super) fn add(
    key: MessageKey,
    known: u64,
    receivers: impl Iterator<Item = Times>,
    messages: &mut MessageTotals,
) {
    for of in receivers.filter(|of| of.awaited_ns <= known + AT_ONCE_NS) {
        messages.add_delay(key, i128::from(of.arrived_ns) - i128::from(known));
    }
}

/// Adds the delays of all gathers, reductions and transfers of a step.
///
/// A delay counts from when the last rank had issued the message. The others' wait for that one is in the time of issue already,
/// which is the longest of them: the simulator has one rank for all data ranks.
pub(super) fn add_step(
    facts: &Facts<'_>,
    step: &Recording<'_>,
    sent: Vec<RecordedMessage>,
    messages: &mut MessageTotals,
) {
    let mut links: BTreeMap<(usize, Lane), Vec<RecordedMessage>> = BTreeMap::new();
    for message in sent {
        let first = message.first();
        if first.instruction.lane() != Lane::Compute {
            links.entry((first.rank, step.link(first))).or_default().push(message);
        }
    }
    for mut link in links.into_values() {
        link.sort_by_key(|message| message.ready_ns);
        let mut free = 0;
        for message in link {
            let instruction = message.first().instruction;
            let emulated = facts.emulated(instruction);
            free = message.ready_ns.max(free) + emulated.occupied;
            let receivers = message.receivers().map(|receiver| step.times(receiver));
            add(facts.key(instruction), free + emulated.latency, receivers, messages);
        }
    }
}
