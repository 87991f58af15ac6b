//! The critical path as JSON.

use pipezero_schedule::CheckedProgram;
use pipezero_schedule::simulate::{CriticalPath, PathStep, Why};
use serde_json::{Value, json};

/// The parts of the critical path, end to end, with times converted by `time` under keys that end with their unit.
pub(super) fn critical_path_json(
    program: &CheckedProgram,
    path: &CriticalPath,
    unit: &str,
    time: impl Fn(u64) -> f64,
) -> Value {
    let [start, end] = ["start", "end"].map(|key| format!("{key}{unit}"));
    let part = |step: &PathStep| {
        // Messages that complete at the end of a row belong to no instruction.
        let instruction = program.row(step.rank).get(step.index);
        json!({
            "pipeline_rank": step.rank.index(),
            "index": step.index,
            "instruction": instruction.map(ToString::to_string),
            start.as_str(): time(step.start),
            end.as_str(): time(step.end),
            "waited_for": waited_for(step.why),
        })
    };
    path.steps().iter().map(part).collect()
}

/// What a part of the critical path waited for, as JSON names it.
fn waited_for(why: Why) -> &'static str {
    match why {
        Why::Beginning => "nothing",
        Why::ComputeLane => "compute lane",
        Why::Row => "row",
        Why::Dependency => "dependency",
        Why::Message => "message",
        Why::OtherEnd => "other end",
        Why::LinkBusy => "link",
        Why::Synchronization => "last rank",
        Why::Handling => "own time for messages",
        Why::DataRanks => "other data ranks",
    }
}
