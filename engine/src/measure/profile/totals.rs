//! Sums over all that was recorded, by what a costs file tells apart.

use std::collections::BTreeMap;

use pipezero_schedule::{Instruction, InstructionKind, PipelineRank};

use super::arrivals;
use super::facts::{Facts, MessageKey};
use super::instants::Instants;
use super::mean::Mean;
use super::meetings::{self, OwnNorms};
use super::recording::RecordedStep;

/// What the computes of a kind of unit took.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitTotals(BTreeMap<InstructionKind, Mean>);

impl UnitTotals {
    /// What a kind of compute took; the mean of nothing where there was none.
    pub(super) fn mean(&self, kind: InstructionKind) -> Mean {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    fn add(&mut self, kind: InstructionKind, computes: impl Iterator<Item = Instants>) {
        let mean = self.0.entry(kind).or_default();
        computes.for_each(|of| mean.add(of.duration()));
    }
}

/// What a kind of message took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageTotal {
    pub(super) issue: Mean,
    pub(super) delay: Mean,
    pub(super) landing: Mean,
}

impl MessageTotal {
    /// Adds a rank's own time at its end of a transfer: means are over both ends.
    pub(super) fn add_end(&mut self, of: Instants) {
        self.issue.add(of.issue());
        self.landing.add(of.landing());
    }

    /// Adds the own times of the data ranks at a collective of theirs. Of the issues it is the longest: on threads whoever comes
    /// last carries the exchange out, which makes it the last again next time.
    pub(super) fn add_collective(&mut self, members: impl Iterator<Item = Instants> + Clone) {
        self.issue.add(members.clone().map(Instants::issue).max().unwrap_or(0));
        members.for_each(|of| self.landing.add(of.landing()));
    }
}

/// What messages took.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageTotals(BTreeMap<MessageKey, MessageTotal>);

impl MessageTotals {
    /// Adds how much later than its issue and its link make it a message was there.
    pub(super) fn add_delay(&mut self, key: MessageKey, delay: i128) {
        self.of(key).delay.add_difference(delay);
    }

    /// Adds what a meeting took: a delay where ranks meet, and the rank's own time where it is alone.
    pub(super) fn add_meeting(&mut self, key: MessageKey, took: i128) {
        let total = self.of(key);
        let mean = if key.ranks > 1 { &mut total.delay } else { &mut total.issue };
        mean.add_difference(took);
    }

    /// By kind, ranks and bytes, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageKey, MessageTotal)> {
        self.0.iter().map(|(&key, &total)| (key, total))
    }

    /// What the messages of a key took so far.
    pub(super) fn of(&mut self, key: MessageKey) -> &mut MessageTotal {
        self.0.entry(key).or_default()
    }
}

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
    pub(super) fn of(facts: &Facts<'_>, steps: &[RecordedStep]) -> Self {
        let mut totals = Self {
            units: vec![UnitTotals::default(); facts.keys.len()],
            messages: MessageTotals::default(),
            own_norms: OwnNorms::of(facts, steps),
            step_overhead: Mean::default(),
        };
        for step in steps {
            facts.pipeline_ranks().for_each(|rank| totals.add_row(facts, step, rank));
            totals.step_overhead.add_difference(i128::from(step.step_ns) - i128::from(step.makespan()));
        }
        // Delays are counted from issues, so all of these come first.
        let messages = &mut totals.messages;
        for step in steps {
            for rank in facts.pipeline_ranks() {
                arrivals::add_collectives(facts, step, rank, messages);
                arrivals::add_transfers(facts, step, rank, messages);
            }
            meetings::add_norm(facts, step, totals.own_norms, messages);
            meetings::add_tied(facts, step, messages);
        }
        totals
    }

    /// What a compute of a unit takes in the mean, nanoseconds; `None` of all else.
    pub(super) fn of_compute(&self, facts: &Facts<'_>, instruction: Instruction) -> Option<u64> {
        let unit = match instruction {
            Instruction::Forward { unit, .. }
            | Instruction::Backward { unit, .. }
            | Instruction::BackwardInput { unit, .. }
            | Instruction::BackwardWeight { unit, .. }
            | Instruction::Recompute { unit, .. }
            | Instruction::OptimizerStep { unit } => unit,
            Instruction::Unshard { .. }
            | Instruction::Reshard { .. }
            | Instruction::Reduce { .. }
            | Instruction::ReduceLast { .. }
            | Instruction::AllReduce { .. }
            | Instruction::Send { .. }
            | Instruction::Receive { .. }
            | Instruction::AddTied { .. }
            | Instruction::GradientNorm
            | Instruction::GatherAfterStep { .. } => return None,
        };
        self.units[facts.key_of(unit)].mean(instruction.kind()).get()
    }

    /// Adds the ranks' own time at each instruction of a row, over the data ranks.
    fn add_row(&mut self, facts: &Facts<'_>, step: &RecordedStep, rank: PipelineRank) {
        let Self { units, messages, .. } = self;
        for (index, &instruction) in facts.program().row(rank).iter().enumerate() {
            let of_members = || facts.members(rank).map(|member| step.rows[member][index]);
            match instruction {
                Instruction::Forward { unit, .. }
                | Instruction::Backward { unit, .. }
                | Instruction::BackwardInput { unit, .. }
                | Instruction::BackwardWeight { unit, .. }
                | Instruction::Recompute { unit, .. }
                | Instruction::OptimizerStep { unit } => {
                    units[facts.key_of(unit)].add(instruction.kind(), of_members());
                }
                Instruction::Send { .. } | Instruction::Receive { .. } => {
                    let total = messages.of(facts.key(instruction));
                    of_members().for_each(|of| total.add_end(of));
                }
                Instruction::Unshard { .. }
                | Instruction::GatherAfterStep { .. }
                | Instruction::Reduce { .. }
                | Instruction::ReduceLast { .. }
                | Instruction::AllReduce { .. } => {
                    messages.of(facts.key(instruction)).add_collective(of_members());
                }
                // Bookkeeping, and what ranks do together.
                Instruction::Reshard { .. } | Instruction::AddTied { .. } | Instruction::GradientNorm => {}
            }
        }
    }
}
