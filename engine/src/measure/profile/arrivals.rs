//! How much later than its link makes it each message was there, as those saw who waited for it.
//!
//! Links are followed in the order in which messages set out, since a message may wait for those before it. Only a rank that
//! began to wait before its link would have brought it can tell when a message came; one that came later finds it there.

use std::collections::BTreeMap;
use std::iter::once;

use pipezero_schedule::{Edge, Instruction, Lane, PipelineRank};

use super::facts::{Facts, MessageKey};
use super::instants::Instants;
use super::recording::RecordedStep;
use super::totals::MessageTotals;

/// A wait that begins so soon after a message could be there began with it: whoever issues last and waits at once finds it
/// there, and counts among those who waited.
const AT_ONCE_NS: u64 = 2_000;

/// When the last of those who take part in a message had issued it.
pub(super) fn joined(members: impl Iterator<Item = Instants>) -> u64 {
    members.map(|of| of.issued).max().unwrap_or(0)
}

/// Adds how much later than it is `known` to be there a message was, by each rank that can tell.
pub(super) fn add_delays(
    key: MessageKey,
    known: u64,
    receivers: impl Iterator<Item = Instants>,
    messages: &mut MessageTotals,
) {
    for of in receivers.filter(|of| of.awaited <= known + AT_ONCE_NS) {
        messages.add_delay(key, i128::from(of.arrived) - i128::from(known));
    }
}

/// A collective under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: usize,
    instruction: Instruction,
    /// When its last rank had issued it.
    joined: u64,
}

/// Adds the delays of a pipeline rank's gathers and reductions.
///
/// A delay counts from when the last data rank had issued it. The others' wait for that one is in the time of issue
/// already, which is the longest of them: the simulator has one rank for all.
pub(super) fn add_collectives(
    facts: &Facts<'_>,
    step: &RecordedStep,
    rank: PipelineRank,
    messages: &mut MessageTotals,
) {
    let of_members = |index: usize| facts.members(rank).map(move |member| step.rows[member][index]);
    let mut links: [Vec<Sent>; 2] = Default::default();
    for (index, &instruction) in facts.program().row(rank).iter().enumerate() {
        let link = match instruction.lane() {
            Lane::Gather => 0,
            Lane::Reduce => usize::from(!facts.collectives_share_a_link()),
            Lane::Compute | Lane::Edge(_) => continue,
        };
        let joined = joined(of_members(index));
        links[link].push(Sent { index, instruction, joined });
    }
    for mut link in links {
        link.sort_by_key(|sent| sent.joined);
        let mut free = 0;
        for Sent { index, instruction, joined } in link {
            let imitated = facts.imitated(instruction);
            free = joined.max(free) + imitated.occupied;
            add_delays(facts.key(instruction), free + imitated.latency, of_members(index), messages);
        }
    }
}

/// Adds the delays of what a pipeline rank sends to others.
pub(super) fn add_transfers(
    facts: &Facts<'_>,
    step: &RecordedStep,
    rank: PipelineRank,
    messages: &mut MessageTotals,
) {
    let program = facts.program();
    for (data_rank, from) in facts.members(rank).enumerate() {
        let mut free = BTreeMap::<Edge, u64>::new();
        for (index, &instruction) in program.row(rank).iter().enumerate() {
            let Instruction::Send { edge, .. } = instruction else { continue };
            let receive = program.peer(rank.at(index)).expect("a checked send has a receive");
            let [sent, received] = [
                step.rows[from][index],
                step.rows[facts.members(receive.rank).start + data_rank][receive.index],
            ];
            let imitated = facts.imitated(instruction);
            let free = free.entry(edge).or_default();
            *free = joined([sent, received].into_iter()).max(*free) + imitated.occupied;
            add_delays(facts.key(instruction), *free + imitated.latency, once(received), messages);
        }
    }
}
