//! What messages that were sent alone took, round by round: the figures of a step, by the same functions.

use std::iter::once;

use pipezero_schedule::Instruction;

use super::routes::Routes;
use crate::measure::profile::facts::{Facts, Imitated, MessageKey};
use crate::measure::profile::steps::typical;
use crate::measure::profile::sums::MessageTotals;
use crate::measure::profile::{delays, joint};
use crate::measure::recording::{Place, Shape, Times, makespan_ns, times_of_events};
use crate::run::executor::{Event, ProbedMessage};

/// One round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// `[world rank][index]`: the rows are those of the routes.
    pub(super) rows: Vec<Vec<Times>>,
}

impl Round {
    /// From the first rank's first start to the last rank's last end.
    pub(super) fn took_ns(&self) -> u64 {
        makespan_ns(&self.rows)
    }
}

/// The rounds that a probe's events are of: `[world rank]`.
///
/// # Panics
/// If the events are not of so many rounds.
pub(super) fn of_events(
    facts: &Facts<'_>,
    routes: &Routes,
    events: &[Vec<Event>],
    num_rounds: usize,
) -> Vec<Round> {
    let (program, grid) = (facts.program(), facts.plan.grid());
    let rows = events.iter().enumerate().map(|(rank, events)| {
        let row = &routes.rows[grid.pipeline_rank(rank)];
        let of_message = |index: usize| {
            let instruction = row[index % row.len()].instruction();
            // A probe starts a tied addition between ranks like any message.
            let shape = match Shape::of(program, instruction) {
                Shape::Compute => Shape::Compute,
                Shape::Joint | Shape::Message => Shape::Message,
            };
            (Place { rank, index, instruction }, shape)
        };
        let times = times_of_events(events, 0, num_rounds * row.len(), of_message);
        times.expect("a rank records each message of a probe once in every round")
    });
    let rows: Vec<Vec<Times>> = rows.collect();
    let round = |number: usize| {
        let of_rank = |row: &Vec<Times>| {
            let len = row.len() / num_rounds;
            row[number * len..(number + 1) * len].to_vec()
        };
        Round { rows: rows.iter().map(of_rank).collect() }
    };
    (0..num_rounds).map(round).collect()
}

/// Adds what messages of a size took in the typical rounds.
pub(super) fn add(
    facts: &Facts<'_>,
    routes: &Routes,
    bytes: u64,
    rounds: Vec<Round>,
    totals: &mut MessageTotals,
) {
    let resized: Vec<_> = routes.messages().map(|(.., message)| Resized::of(facts, message, bytes)).collect();
    for round in typical(rounds, Round::took_ns) {
        let mut tied = Vec::new();
        for ((rank, index, message), &resized) in routes.messages().zip(&resized) {
            let members = || facts.members(rank).map(|member| round.rows[member][index]);
            match message.instruction() {
                Instruction::Send { edge, .. } => {
                    let (receiver, receive) = routes.receive_of(facts, edge);
                    let received = facts.members(receiver).map(|member| round.rows[member][receive]);
                    resized.add_transfers(members(), received, totals);
                }
                // Its wait goes with its send.
                Instruction::Receive { .. } => members().for_each(|of| totals.of(resized.key).add_end(of)),
                Instruction::AddTied { .. } => {
                    tied.push(members().collect());
                    if tied.len() as u64 == resized.key.ranks {
                        resized.add_tied(&tied, totals);
                    }
                }
                _ => resized.add_collective(members(), totals),
            }
        }
    }
}

/// A message of a size that is not its own.
#[derive(Clone, Copy, Debug)]
struct Resized {
    key: MessageKey,
    imitated: Imitated,
}

impl Resized {
    fn of(facts: &Facts<'_>, message: ProbedMessage, bytes: u64) -> Self {
        let instruction = message.instruction();
        let key = MessageKey { bytes, ..facts.key(instruction) };
        let imitated = facts.over_its_link(&facts.message(instruction).with_bytes(bytes));
        Self { key, imitated }
    }

    /// `[data rank]`
    fn add_collective(self, members: impl Iterator<Item = Times> + Clone, totals: &mut MessageTotals) {
        totals.of(self.key).add_collective(members.clone());
        let ready_ns = members.clone().map(|of| of.issued_ns).max().unwrap_or(0);
        self.add_delays(ready_ns, members, totals);
    }

    /// `[data rank]` of both ends.
    fn add_transfers(
        self,
        sent: impl Iterator<Item = Times>,
        received: impl Iterator<Item = Times>,
        totals: &mut MessageTotals,
    ) {
        for (sent, received) in sent.zip(received) {
            totals.of(self.key).add_end(sent);
            self.add_delays(sent.issued_ns.max(received.issued_ns), once(received), totals);
        }
    }

    /// `[rank of a use][data rank]`
    fn add_tied(self, uses: &[Vec<Times>], totals: &mut MessageTotals) {
        for data_rank in 0..uses[0].len() {
            let came_and_ended = uses.iter().map(|of| [of[data_rank].started_ns, of[data_rank].ended_ns]);
            joint::add(self.key, self.imitated, came_and_ended, totals);
        }
    }

    /// Nothing else is on its link.
    fn add_delays(self, ready_ns: u64, receivers: impl Iterator<Item = Times>, totals: &mut MessageTotals) {
        delays::add(self.key, ready_ns + self.imitated.total(), receivers, totals);
    }
}
