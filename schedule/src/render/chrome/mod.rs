//! A step as a trace for `ui.perfetto.dev` and `chrome://tracing`: Chrome's Trace Event Format, in JSON.
//!
//! A process is a rank, a thread a lane. Slices on one thread may nest but not overlap, so a lane on which messages overlap
//! has several. Arrows go from each send to its receive, and from each gather to the first compute that reads it. Perfetto
//! colours slices by their names without digits, which makes a colour per kind of instruction; `chrome://tracing` takes the
//! colour from `cname`, which Perfetto ignores on purpose. The format is old but both read it, and so do most other tools;
//! Perfetto's own is binary and would need a library.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::json::{microseconds, quoted};
use super::lanes::{LaneRow, lane_name, lane_rows};
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Activity, Instruction};
use crate::simulate::{Span, Timeline};

/// A timeline in a trace.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// What it is: "predicted", "measured".
    pub name: &'a str,
    /// The data rank that it is of; `None` where it stands for all of them.
    pub data_rank: Option<u32>,
    /// What was run.
    pub program: &'a CheckedProgram,
    /// When, in nanoseconds.
    pub timeline: &'a Timeline,
}

/// Several timelines as one trace, so that they can be laid over each other: pipeline rank by pipeline rank, the tracks of
/// each in the order given, named "predicted rank 0" or, of one data rank, "measured rank 0.1".
///
/// Times are microseconds with three decimals, exact from nanoseconds. `writer`, the program that writes the trace,
/// stands before them under `otherData`, which viewers show and do not interpret.
///
/// # Panics
/// If a timeline is not of its program.
pub fn chrome(tracks: &[Track<'_>], writer: &str) -> String {
    let num_processes: usize = tracks.iter().map(|track| track.program.num_ranks()).sum();
    // A thread that has its process's number would be its main thread, and 0 the idle one.
    let mut trace = Trace { events: Vec::new(), next_id: 0, next_tid: num_processes + 1 };
    let mut next_pid = 1;
    for (index, track) in tracks.iter().enumerate() {
        let ids = trace.number(track);
        for rank in track.program.ranks() {
            let sort_index = rank.index() * tracks.len() + index;
            trace.push_rank(&RankTrack { track, rank, ids: &ids, pid: next_pid }, sort_index);
            next_pid += 1;
        }
    }
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"writer\":{}}},\"traceEvents\":[\n{}\n]}}\n",
        quoted(writer),
        trace.events.join(",\n")
    )
}

/// The rank of a track: a process.
struct RankTrack<'a> {
    track: &'a Track<'a>,
    rank: PipelineRank,
    /// `[rank]`: the number of the first instruction of its row, by which arrows are named.
    ids: &'a [usize],
    pid: usize,
}

impl RankTrack<'_> {
    fn name(&self) -> String {
        let data_rank = self.track.data_rank.map(|of| format!(".{of}")).unwrap_or_default();
        format!("{} rank {}{data_rank}", self.track.name, self.rank.0)
    }

    /// Whether an instruction is the first to read a gather that it waits for.
    fn reads_first(&self, index: usize, gather: usize) -> bool {
        let waits = |at: usize| self.track.program.waits(self.rank.at(at));
        !(gather + 1..index).any(|before| waits(before).contains(&gather))
    }

    /// The arrows that begin or end at an instruction: phase, number, time. All lie within its slice.
    fn arrows(&self, index: usize) -> Vec<(char, usize, u64)> {
        let own = self.ids[self.rank.index()];
        let (program, row) = (self.track.program, self.track.program.row(self.rank));
        let span = self.track.timeline.row(self.rank)[index];
        let mut gathers: Vec<usize> = program.waits(self.rank.at(index)).to_vec();
        gathers.retain(|&of| matches!(row[of], Instruction::Unshard { .. }) && self.reads_first(index, of));
        let mut arrows: Vec<_> = gathers.into_iter().map(|of| ('f', own + of, span.start)).collect();
        match row[index] {
            Instruction::Send { .. } => arrows.push(('s', own + index, span.start)),
            Instruction::Receive { .. } => {
                if let Some(send) = program.peer(self.rank.at(index)) {
                    arrows.push(('f', self.ids[send.rank.index()] + send.index, last_moment(span)));
                }
            }
            Instruction::Unshard { .. } => arrows.push(('s', own + index, last_moment(span))),
            _ => {}
        }
        arrows
    }
}

/// The last moment that lies within a slice, which ends before its end.
fn last_moment(span: Span) -> u64 {
    span.end.saturating_sub(1).max(span.start)
}

/// The events of a trace, an object each.
struct Trace {
    events: Vec<String>,
    next_id: usize,
    /// Numbers of threads are of the whole trace, for viewers that do not ask for the process too.
    next_tid: usize,
}

impl Trace {
    /// Numbers for all instructions of a track.
    fn number(&mut self, track: &Track<'_>) -> Vec<usize> {
        let first_of_row = |row: &Vec<Instruction>| {
            self.next_id += row.len();
            self.next_id - row.len()
        };
        track.program.program().rows.iter().map(first_of_row).collect()
    }

    fn push_rank(&mut self, rank: &RankTrack<'_>, sort_index: usize) {
        let pid = rank.pid;
        let first_tid = self.next_tid;
        let mut metadata = |tid: usize, name: &str, args: String| {
            self.events
                .push(format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"{name}","args":{{{args}}}}}"#));
        };
        metadata(first_tid, "process_name", format!(r#""name":{}"#, quoted(&rank.name())));
        metadata(first_tid, "process_sort_index", format!(r#""sort_index":{sort_index}"#));
        let rows = lane_rows(rank.track.program, rank.track.timeline, rank.rank);
        for (tid, row) in (first_tid..).zip(&rows) {
            metadata(tid, "thread_name", format!(r#""name":{}"#, quoted(&lane_name(row.lane, row.number))));
            metadata(tid, "thread_sort_index", format!(r#""sort_index":{tid}"#));
        }
        self.next_tid += rows.len();
        for (tid, row) in (first_tid..).zip(&rows) {
            self.push_lane(rank, tid, row);
        }
    }

    fn push_lane(&mut self, rank: &RankTrack<'_>, tid: usize, row: &LaneRow) {
        let pid = rank.pid;
        for &index in &row.indices {
            let instruction = rank.track.program.row(rank.rank)[index];
            let Span { start, end } = rank.track.timeline.row(rank.rank)[index];
            let activity = instruction.activity();
            self.events.push(format!(
                r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{},"dur":{},"name":"{instruction}","cat":"{}","cname":"{}","args":{}}}"#,
                microseconds(start),
                microseconds(end.saturating_sub(start)),
                activity.name(),
                colour_name(activity),
                arguments(instruction, index),
            ));
            // Right after its slice, so that it belongs to it even where slices of no length share a moment.
            for (phase, id, at) in rank.arrows(index) {
                let binding = if phase == 'f' { r#","bp":"e""# } else { "" };
                self.events.push(format!(
                    r#"{{"ph":"{phase}","pid":{pid},"tid":{tid},"ts":{},"id":{id},"name":"data","cat":"data"{binding}}}"#,
                    microseconds(at),
                ));
            }
        }
    }
}

fn arguments(instruction: Instruction, index: usize) -> String {
    let mut arguments = format!(r#"{{"instruction":"{instruction}","index":{index}"#);
    if let Some(unit) = instruction.unit() {
        arguments.push_str(&format!(r#","unit":{}"#, unit.0));
    }
    if let Some(micro_batch) = instruction.micro_batch() {
        arguments.push_str(&format!(r#","micro_batch":{}"#, micro_batch.0));
    }
    arguments.push('}');
    arguments
}

/// Of the fixed colours that `chrome://tracing` knows by name.
fn colour_name(activity: Activity) -> &'static str {
    match activity {
        Activity::Forward => "thread_state_runnable",
        Activity::Backward => "thread_state_running",
        Activity::BackwardInput => "rail_animation",
        Activity::BackwardWeight => "rail_response",
        Activity::Recompute => "olive",
        Activity::Gather => "yellow",
        Activity::Reduce => "bad",
        Activity::Transfer => "thread_state_iowait",
        Activity::Optimizer => "black",
        Activity::Synchronization => "grey",
        Activity::Bookkeeping => "white",
    }
}

#[cfg(test)]
mod tests;
