//! What messages that were sent alone took, round by round.

use pipezero_schedule::{Instruction, PipelineRank};

use super::routes::Routes;
use crate::executor::Event;
use crate::profile::arrivals;
use crate::profile::facts::{Facts, Imitated, MessageKey};
use crate::profile::instants::{self, Instants};
use crate::profile::recording::{RecordedStep, typical};
use crate::profile::totals::MessageTotals;

/// One round: a step of nothing but messages, whose rows are those of the routes.
pub(super) type Round = RecordedStep;

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
        let mut round = Round { rows: (0..events.len()).map(row).collect(), step_ns: 0 };
        round.step_ns = round.makespan();
        round
    };
    (0..num_rounds).map(round).collect()
}

/// Adds what messages of a size took in the typical rounds: the figures of a step by the rules of a step.
pub(super) fn add(
    facts: &Facts<'_>,
    routes: &Routes,
    bytes: u64,
    rounds: &[Round],
    totals: &mut MessageTotals,
) {
    for round in typical(rounds.to_vec()) {
        let of_rank = |rank: PipelineRank, place: usize| -> Vec<Instants> {
            facts.members(rank).map(|member| round.rows[member][place]).collect()
        };
        let mut meeting = Vec::new();
        for (rank, place, instruction) in routes.messages() {
            let message = Resized::of(facts, instruction, bytes);
            match instruction {
                // With its send.
                Instruction::Receive { .. } => {}
                Instruction::Send { .. } => {
                    let (receiver, receive) = routes.receive_of(facts, instruction);
                    message.add_transfers(&of_rank(rank, place), &of_rank(receiver, receive), totals);
                }
                Instruction::AddTied { .. } => {
                    meeting.push(of_rank(rank, place));
                    if meeting.len() as u64 == message.key.ranks {
                        message.add_meetings(&meeting, totals);
                    }
                }
                _ => message.add_collective(&of_rank(rank, place), totals),
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
    fn of(facts: &Facts<'_>, instruction: Instruction, bytes: u64) -> Self {
        let key = MessageKey { bytes, ..facts.key(instruction) };
        let imitated = facts.over_its_link(&facts.message(instruction).with_bytes(bytes));
        Self { key, imitated }
    }

    /// `[data rank]`
    fn add_collective(self, members: &[Instants], totals: &mut MessageTotals) {
        let total = totals.of(self.key);
        // As in a step: whoever comes last carries the exchange out.
        total.issue.add(members.iter().map(|of| of.issue()).max().unwrap_or(0));
        members.iter().for_each(|of| total.landing.add(of.landing()));
        let joined = members.iter().map(|of| of.issued).max().unwrap_or(0);
        self.add_delays(joined, members, totals);
    }

    /// `[data rank]` of both ends.
    fn add_transfers(self, sent: &[Instants], received: &[Instants], totals: &mut MessageTotals) {
        for (sent, received) in sent.iter().zip(received) {
            let total = totals.of(self.key);
            for end in [sent, received] {
                total.issue.add(end.issue());
                total.landing.add(end.landing());
            }
            self.add_delays(sent.issued.max(received.issued), &[*received], totals);
        }
    }

    /// `[rank of a use][data rank]`
    fn add_meetings(self, uses: &[Vec<Instants>], totals: &mut MessageTotals) {
        for data_rank in 0..uses[0].len() {
            let here = || uses.iter().map(|of| of[data_rank]);
            let joined = here().map(|of| of.started).max().unwrap_or(0);
            let ended = here().map(|of| of.ended).max().unwrap_or(0);
            let known = joined + self.imitated.total();
            totals.add_meeting(self.key, i128::from(ended) - i128::from(known));
        }
    }

    fn add_delays(self, joined: u64, waiting: &[Instants], totals: &mut MessageTotals) {
        let known = joined + self.imitated.total();
        let delays = waiting.iter().filter_map(|&of| arrivals::delay(of, known));
        delays.for_each(|delay| totals.add_delay(self.key, delay));
    }
}
