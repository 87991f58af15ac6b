//! What messages that were sent alone took, round by round: the figures of a step, by the same functions.

use std::iter::once;

use super::routes::Routes;
use crate::measure::profile::facts::{Facts, Imitated, MessageKey};
use crate::measure::profile::instants::{self, Instants};
use crate::measure::profile::meetings::Stay;
use crate::measure::profile::recording::typical;
use crate::measure::profile::totals::MessageTotals;
use crate::measure::profile::{arrivals, meetings};
use crate::run::executor::{Event, ProbedMessage, Transfer};

/// One round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// `[world rank][index]`: the rows are those of the routes.
    pub(super) rows: Vec<Vec<Instants>>,
}

impl Round {
    /// From the first rank's first start to the last rank's last end.
    pub(super) fn took_ns(&self) -> u64 {
        instants::makespan(&self.rows)
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
    let grid = facts.plan.grid();
    let row_len = |rank: usize| routes.rows[grid.pipeline_rank(rank)].len();
    let instants: Vec<Vec<Instants>> = events
        .iter()
        .enumerate()
        .map(|(rank, events)| instants::of_row(events, num_rounds * row_len(rank)))
        .collect();
    let round = |number: usize| {
        let row = |rank: usize| {
            let len = row_len(rank);
            instants[rank][number * len..(number + 1) * len].to_vec()
        };
        Round { rows: (0..events.len()).map(row).collect() }
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
            match message.transfer() {
                Transfer::Gather
                | Transfer::GatherInPlace
                | Transfer::Reduce
                | Transfer::ReduceInPlace
                | Transfer::AllReduce => resized.add_collective(members(), totals),
                Transfer::Send(edge) => {
                    let (receiver, receive) = routes.receive_of(facts, edge);
                    let received = facts.members(receiver).map(|member| round.rows[member][receive]);
                    resized.add_transfers(members(), received, totals);
                }
                // Its wait goes with its send.
                Transfer::Receive(_) => members().for_each(|of| totals.of(resized.key).add_end(of)),
                Transfer::AddTied => {
                    tied.push(members().collect());
                    if tied.len() as u64 == resized.key.ranks {
                        resized.add_meetings(&tied, totals);
                    }
                }
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
    fn add_collective(self, members: impl Iterator<Item = Instants> + Clone, totals: &mut MessageTotals) {
        totals.of(self.key).add_collective(members.clone());
        self.add_delays(arrivals::joined(members.clone()), members, totals);
    }

    /// `[data rank]` of both ends.
    fn add_transfers(
        self,
        sent: impl Iterator<Item = Instants>,
        received: impl Iterator<Item = Instants>,
        totals: &mut MessageTotals,
    ) {
        for (sent, received) in sent.zip(received) {
            totals.of(self.key).add_end(sent);
            self.add_delays(arrivals::joined([sent, received].into_iter()), once(received), totals);
        }
    }

    /// `[rank of a use][data rank]`
    fn add_meetings(self, uses: &[Vec<Instants>], totals: &mut MessageTotals) {
        for data_rank in 0..uses[0].len() {
            let stays = uses.iter().map(|of| Stay::at_tied(of[data_rank]));
            meetings::add(self.key, self.imitated, stays, totals);
        }
    }

    /// Nothing else is on its link.
    fn add_delays(self, joined: u64, receivers: impl Iterator<Item = Instants>, totals: &mut MessageTotals) {
        arrivals::add_delays(self.key, joined + self.imitated.total(), receivers, totals);
    }
}
