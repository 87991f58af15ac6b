//! How long ranks were busy with each kind of instruction of each unit.

use std::collections::BTreeMap;

use pipezero_schedule::{CheckedProgram, Instruction, InstructionKind, PipelineRank, Unit};

use super::carrier::Carrier;
use super::median;
use crate::measure::trace::members::{Site, members};
use crate::measure::trace::moments::Moments;
use crate::measure::trace::recorded::Recorded;

/// What has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Compute(InstructionKind, Unit),
    Issue(Carrier),
    Landing(Carrier),
    /// A rank's own part of the norm.
    OwnNorm(PipelineRank),
    /// What the norm takes once all ranks have come.
    Norm,
    AddTied,
}

/// The means of several steps.
#[derive(Debug, Default)]
pub(super) struct Prices(BTreeMap<Item, Vec<u64>>);

impl Prices {
    /// The middle one of the steps' means; 0 of what never ran.
    pub(super) fn median_ns(&self, item: Item) -> u64 {
        self.0.get(&item).map_or(0, |means| median(means))
    }

    /// Adds those of a step.
    pub(super) fn add(&mut self, program: &CheckedProgram, recorded: &Recorded) {
        let mut times: BTreeMap<Item, Vec<u64>> = BTreeMap::new();
        for site in recorded.sites() {
            for (item, time_ns) in items(program, recorded, site) {
                times.entry(item).or_default().push(time_ns);
            }
        }
        for (item, times) in times {
            self.0.entry(item).or_default().push(mean(&times));
        }
    }
}

/// What an instruction says of prices.
fn items(program: &CheckedProgram, recorded: &Recorded, site: Site) -> Vec<(Item, u64)> {
    let instruction = site.instruction(program);
    match *recorded.moments(site) {
        Moments::Compute { started_ns, ended_ns } => {
            compute_item(instruction).map(|item| (item, ended_ns - started_ns)).into_iter().collect()
        }
        Moments::Meeting { started_ns, joined_ns, ended_ns } => {
            let joined = members(program, recorded.grid(), site).into_iter();
            let joined = joined.filter_map(|member| match recorded.moments(member) {
                Moments::Meeting { joined_ns, .. } => Some(*joined_ns),
                Moments::Compute { .. } | Moments::Message(_) => None,
            });
            let own_ns = joined_ns - started_ns;
            let together_ns = ended_ns.saturating_sub(joined.max().unwrap_or(ended_ns));
            match instruction {
                Instruction::GradientNorm => {
                    vec![(Item::OwnNorm(site.pipeline_rank), own_ns), (Item::Norm, together_ns)]
                }
                _ => vec![(Item::AddTied, own_ns + together_ns)],
            }
        }
        Moments::Message(message) => {
            let carrier = Carrier::of(instruction).expect("a message has a carrier");
            vec![(Item::Issue(carrier), message.issue_ns()), (Item::Landing(carrier), message.landing_ns())]
        }
    }
}

/// What a compute says of prices; a reshard has none in any prediction.
fn compute_item(instruction: Instruction) -> Option<Item> {
    match instruction {
        Instruction::Forward { unit, .. }
        | Instruction::Backward { unit, .. }
        | Instruction::BackwardInput { unit, .. }
        | Instruction::BackwardWeight { unit, .. }
        | Instruction::Recompute { unit, .. }
        | Instruction::OptimizerStep { unit } => Some(Item::Compute(instruction.kind(), unit)),
        Instruction::AddTied { .. } => Some(Item::AddTied),
        Instruction::Reshard { .. } => None,
        Instruction::GradientNorm
        | Instruction::Unshard { .. }
        | Instruction::Reduce { .. }
        | Instruction::ReduceLast { .. }
        | Instruction::AllReduce { .. }
        | Instruction::GatherAfterStep { .. }
        | Instruction::Send { .. }
        | Instruction::Receive { .. } => unreachable!("meetings and messages have moments of their own form"),
    }
}

fn mean(times: &[u64]) -> u64 {
    let sum: u128 = times.iter().map(|&time| u128::from(time)).sum();
    let num = times.len().max(1) as u128;
    u64::try_from((sum + num / 2) / num).expect("a mean is no larger than the largest")
}
