//! What messages that were sent alone took, round by round: the figures of a step, by the same functions.

use pipezero_plan::costs::MessageKind;
use pipezero_run::executor::RecordedEvent;
use pipezero_schedule::{Instruction, Lane, PipelineRank};

use super::routes::Routes;
use crate::profile::facts::{EmulatedDelay, Facts, MessageKey};
use crate::profile::sums::MessageTotals;
use crate::profile::typical::typical;
use crate::profile::{delays, joint};
use crate::recording::{Place, Shape, Times, makespan_ns, times_of_events};

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
    events: &[Vec<RecordedEvent>],
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
    let messages = messages(facts, routes, bytes);
    for round in typical(rounds, Round::took_ns) {
        for Sent { key, emulated, members } in &messages {
            let times = members.iter().map(|&(rank, index)| round.rows[rank][index]);
            totals.add_own(*key, times.clone());
            if key.kind == MessageKind::AddTied {
                joint::add(*key, *emulated, times.map(|of| [of.started_ns, of.ended_ns]), totals);
                continue;
            }
            let ready_ns = times.clone().map(|of| of.issued_ns).max().unwrap_or(0);
            // Nothing else is on its link.
            delays::add(
                *key,
                ready_ns + emulated.total(),
                times.skip(usize::from(key.kind.is_transfer())),
                totals,
            );
        }
    }
}

/// A message of a round, of a size that is not its own.
struct Sent {
    key: MessageKey,
    emulated: EmulatedDelay,
    /// World rank and index in its row; of a transfer the sender first.
    members: Vec<(usize, usize)>,
}

/// The messages of a round, each once.
fn messages(facts: &Facts<'_>, routes: &Routes, bytes: u64) -> Vec<Sent> {
    let grid = facts.plan.grid();
    let mut messages = Vec::new();
    for (rank, index, message) in routes.messages() {
        let instruction = message.instruction();
        let places = match instruction {
            Instruction::Send { edge, .. } => vec![(rank, index), routes.receive_of(facts, edge)],
            Instruction::Receive { .. } => continue,
            Instruction::AddTied { .. } => routes.messages().map(|(rank, index, _)| (rank, index)).collect(),
            _ => vec![(rank, index)],
        };
        if places[0] != (rank, index) {
            continue;
        }
        let on = |data_rank| {
            let world_rank = move |rank: PipelineRank| grid.rank(rank.index(), data_rank);
            places.iter().map(move |&(rank, index)| (world_rank(rank), index))
        };
        let key = MessageKey { bytes, ..facts.key(instruction) };
        let emulated = facts.over_its_link(&facts.message(instruction).with_bytes(bytes));
        let data_ranks = 0..grid.data_degree;
        // A collective is of all data ranks; they have a transfer or a tied addition each.
        let groups: Vec<Vec<_>> = match instruction.lane() {
            Lane::Gather | Lane::Reduce => vec![data_ranks.flat_map(on).collect()],
            Lane::Edge(_) | Lane::Compute => data_ranks.map(|data_rank| on(data_rank).collect()).collect(),
        };
        messages.extend(groups.into_iter().map(|members| Sent { key, emulated, members }));
    }
    messages
}
