//! Kind by kind: what instructions were predicted to take, and what they took.

use std::collections::BTreeMap;

use pipezero_schedule::{CheckedProgram, Instruction, InstructionKind};
use serde::Serialize;

use super::super::members::Site;
use super::super::moments::Moments;
use super::super::observed::was_waited_for;
use super::super::recorded::Recorded;
use super::{Compared, Prediction};

/// Which part of an instruction is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All of it: computes, and meetings with the wait for the other ranks.
    Whole,
    /// Of a message, what its ranks are busy with themselves: to issue it and to take it in.
    Own,
    /// Of a message, from when it set out to when it was there; only of those that a rank stood still for, since of the others
    /// nobody saw the arrival; no sends, which are done when their buffer is free again.
    Way,
}

/// The instructions of a kind, on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedKind {
    /// The kind, as programs write it: `F`, `UNSHARD`; `SEND and RECV` of what both ends of a message take.
    pub kind: String,
    /// The part of each.
    pub part: Part,
    /// How many there are.
    pub count: usize,
    /// The mean over them.
    pub mean: Compared,
    /// Their sum.
    pub total: Compared,
}

#[derive(Default)]
struct Sum {
    word: String,
    count: usize,
    predicted_ns: u64,
    measured_ns: u64,
}

pub(super) fn compare(
    program: &CheckedProgram,
    recorded: &Recorded,
    prediction: &Prediction,
) -> Vec<ComparedKind> {
    let mut sums: BTreeMap<(InstructionKind, Part), Sum> = BTreeMap::new();
    for site in recorded.sites() {
        for (part, predicted_ns, measured_ns) in parts(program, recorded, prediction, site) {
            let instruction = site.instruction(program);
            let kind = row(instruction.kind(), part);
            let sum = sums.entry((kind, part)).or_default();
            if sum.count == 0 {
                sum.word = word(instruction, part);
            }
            sum.count += 1;
            sum.predicted_ns = sum.predicted_ns.saturating_add(predicted_ns);
            sum.measured_ns = sum.measured_ns.saturating_add(measured_ns);
        }
    }
    let compared = sums.into_iter().map(|((_, part), sum)| {
        let count = sum.count as u64;
        ComparedKind {
            kind: sum.word,
            part,
            count: sum.count,
            mean: Compared::new(sum.predicted_ns / count, sum.measured_ns / count),
            total: Compared::new(sum.predicted_ns, sum.measured_ns),
        }
    });
    compared.collect()
}

/// Both ends of a message are predicted to take the mean of what they took: they are compared together.
fn is_of_both_ends(kind: InstructionKind, part: Part) -> bool {
    matches!((kind, part), (InstructionKind::Send | InstructionKind::Receive, Part::Own))
}

/// The kind in whose row a part of an instruction is.
fn row(kind: InstructionKind, part: Part) -> InstructionKind {
    if is_of_both_ends(kind, part) { InstructionKind::Send } else { kind }
}

/// What that row is called.
fn word(instruction: Instruction, part: Part) -> String {
    if is_of_both_ends(instruction.kind(), part) {
        return "SEND and RECV".to_owned();
    }
    instruction.to_string().split(' ').next().unwrap_or_default().to_owned()
}

/// The parts of an instruction that were measured, each with its predicted and its measured time.
fn parts(
    program: &CheckedProgram,
    recorded: &Recorded,
    prediction: &Prediction,
    site: Site,
) -> Vec<(Part, u64, u64)> {
    let span = prediction.timeline.row(site.pipeline_rank)[site.index];
    let predicted_ns = span.end - span.start;
    match recorded.moments(site) {
        Moments::Compute { started_ns, ended_ns } | Moments::Meeting { started_ns, ended_ns, .. } => {
            vec![(Part::Whole, predicted_ns, ended_ns - started_ns)]
        }
        Moments::Message(message) => {
            let passage = prediction.costs.message(site.instruction(program));
            let mut parts = vec![(Part::Own, passage.issue + passage.landing, message.own_ns())];
            let (_, sets_out_ns) = recorded.sets_out(program, site);
            let is_send = matches!(site.instruction(program), Instruction::Send { .. });
            if !is_send && was_waited_for(message, sets_out_ns) {
                parts.push((Part::Way, predicted_ns, message.arrived_ns.saturating_sub(sets_out_ns)));
            }
            parts
        }
    }
}
