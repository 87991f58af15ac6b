//! Kind by kind: what instructions were predicted to take, and what they took.

use std::collections::BTreeMap;

use pipezero_schedule::{Instruction, InstructionKind};
use serde::Serialize;

use super::compared::Compared;
use super::prediction::Prediction;
use super::waits::was_waited_for;
use crate::recording::{Place, Recording, Shape};

/// Which part of an instruction is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All of it: computes, and what ranks do together with the wait for the others.
    Whole,
    /// Of a message, what its ranks are busy with themselves: to issue it and to complete it.
    Own,
    /// Of a message, from when it set out to when it arrived; only of those that a rank waited for, since the arrival of the others is not
    /// known; not of sends, which are done when their buffer is free again.
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

pub(super) fn compare(recording: &Recording<'_>, prediction: &Prediction) -> Vec<ComparedKind> {
    let mut sums: BTreeMap<(InstructionKind, Part), Sum> = BTreeMap::new();
    for place in recording.places() {
        for (part, predicted_ns, measured_ns) in parts(recording, prediction, place) {
            let kind = row(place.instruction.kind(), part);
            let sum = sums.entry((kind, part)).or_default();
            if sum.count == 0 {
                sum.word = word(place.instruction, part);
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
fn parts(recording: &Recording<'_>, prediction: &Prediction, place: Place) -> Vec<(Part, u64, u64)> {
    let span = prediction.timeline.row(recording.pipeline_rank(place.rank))[place.index];
    let (predicted_ns, times) = (span.end - span.start, recording.times(place));
    if recording.shape(place) != Shape::Message {
        return vec![(Part::Whole, predicted_ns, times.duration_ns())];
    }
    let cost = prediction.costs.message(place.instruction);
    let own_ns = times.issue_ns() + times.completion_ns();
    let mut parts = vec![(Part::Own, cost.issue + cost.landing, own_ns)];
    if !place.is_send() && was_waited_for(recording, place) {
        let way_ns = times.arrived_ns.saturating_sub(recording.ready_ns(place));
        parts.push((Part::Way, predicted_ns, way_ns));
    }
    parts
}
