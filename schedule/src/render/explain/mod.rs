//! The critical path as text: what the time of a step went to, then part by part, with what repeats written once.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::scale::TimeScale;
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};
use crate::simulate::{CriticalPath, PathStep, Why};

/// The longest stretch that is looked for: a few micro-batches of a rank with many units.
const STRETCH_MAX: usize = 64;

/// Lines that must be saved by writing a stretch once, since its heading takes a line too.
const SAVED_MIN: usize = 3;

/// A critical path: the share of each kind of work, and a line for each part, with its beginning, its time, its rank, its
/// instruction and what that waited for last. The units of a stage are one line where nothing is between them; a stretch
/// that repeats with the next micro-batch, or on the next rank, is written once.
///
/// # Panics
/// If the path is not of this program.
pub fn explain(program: &CheckedProgram, path: &CriticalPath, scale: TimeScale) -> String {
    let parts = parts(program, path);
    let shares = shares(program, path);
    let makespan = scale.format(path.steps().last().map_or(0, |step| step.end));
    let mut text = format!("critical path, {makespan}: {shares}\n");
    let widths = widths(program, &parts, scale);
    let mut next = 0;
    while next < parts.len() {
        let Repetition { length, times, rank_step } = Repetition::at(&parts[next..]);
        if times > 1 {
            let until = scale.format(parts[next + length * times - 1].end);
            let how = match rank_step {
                0 => "with other micro-batches",
                1.. => "up the ranks",
                _ => "down the ranks",
            };
            text.push_str(&format!("{times} times until {until}, {how}:\n"));
        }
        for part in &parts[next..next + length] {
            text.push_str(&line(part, scale, widths, if times > 1 { "  | " } else { "    " }));
        }
        next += length * times;
    }
    text
}

/// `forward 41.0 %, gather 12.3 %`: the longest first.
fn shares(program: &CheckedProgram, path: &CriticalPath) -> String {
    let summary = path.summary(program);
    let total: u128 = summary.iter().map(|&(_, time)| u128::from(time)).sum();
    let share = |&(spent, time): &(crate::simulate::Spent, u64)| {
        let thousandths = (u128::from(time) * 1000 + total / 2) / total;
        format!("{} {}.{} %", spent.name(), thousandths / 10, thousandths % 10)
    };
    let shares: Vec<String> = summary.iter().map(share).collect();
    if shares.is_empty() { String::from("nothing takes time") } else { shares.join(", ") }
}

/// A line: a part of the path, or several that are the units of one stage.
struct Part {
    rank: PipelineRank,
    start: u64,
    end: u64,
    why: Why,
    text: String,
    /// The first and the last instruction; `None` for what is spent at the end of a row.
    instructions: Option<(Instruction, Instruction)>,
}

/// The lines of a path.
fn parts(program: &CheckedProgram, path: &CriticalPath) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for step in path.steps() {
        let instruction = program.row(step.rank).get(step.index).copied();
        if let (Some(last), Some(instruction)) = (parts.last_mut(), instruction)
            && step.why == Why::ComputeLane
            && !last.why.is_before()
            && let Some((first, _)) = last.instructions
            && let Some(text) = together(program, first, instruction)
        {
            (last.text, last.end, last.instructions) = (text, step.end, Some((first, instruction)));
            continue;
        }
        let text = match (instruction, step.why) {
            (None, _) => String::from("at the end"),
            (Some(instruction), why) if why.is_before() => format!("before {instruction}"),
            (Some(instruction), _) => instruction.to_string(),
        };
        let &PathStep { rank, start, end, why, .. } = step;
        parts.push(Part { rank, start, end, why, text, instructions: instruction.map(|of| (of, of)) });
    }
    parts
}

/// What a stage does with a micro-batch from one unit to another: `F u0..u2 m4`; `None` for what is not one.
fn together(program: &CheckedProgram, first: Instruction, last: Instruction) -> Option<String> {
    let (from, to) = (first.unit()?, last.unit()?);
    let is_one = first.kind() == last.kind()
        && first.lane() == Lane::Compute
        && first.micro_batch()? == last.micro_batch()?
        && program.chain().stage(from) == program.chain().stage(to);
    is_one.then(|| first.to_string().replacen(&from.to_string(), &format!("{from}..{to}"), 1))
}

impl Part {
    /// Whether this is the other one again: with another micro-batch, or on a rank `rank_step` further.
    fn is_again(&self, other: &Self, rank_step: i64) -> bool {
        let place = |part: &Self| {
            let (first, last) = part.instructions?;
            // On another rank it is another unit, and another edge.
            let here = (first.lane(), first.unit(), last.unit());
            Some((first.kind(), (rank_step == 0).then_some(here)))
        };
        let time = |part: &Self| part.end - part.start;
        i64::from(self.rank.0) - i64::from(other.rank.0) == rank_step
            && self.why == other.why
            && time(self) == time(other)
            && place(self) == place(other)
    }
}

/// A stretch that is written once: how many lines it has, how often it occurs, and by how many ranks it moves each time.
struct Repetition {
    length: usize,
    times: usize,
    rank_step: i64,
}

impl Repetition {
    /// The stretch at the beginning that saves most lines; one line once if none does.
    fn at(parts: &[Part]) -> Self {
        let mut best = Self { length: 1, times: 1, rank_step: 0 };
        for length in 1..=STRETCH_MAX.min(parts.len() / 2) {
            let rank_step = i64::from(parts[length].rank.0) - i64::from(parts[0].rank.0);
            let comes = |time: usize| {
                let (before, again) = (&parts[length * (time - 1)..length * time], &parts[length * time..]);
                again.len() >= length
                    && again.iter().zip(before).all(|(of, before)| of.is_again(before, rank_step))
            };
            let times = (1..).find(|&time| !comes(time)).unwrap_or(1);
            let this = Self { length, times, rank_step };
            if this.saved() >= SAVED_MIN && this.saved() > best.saved() {
                best = this;
            }
        }
        best
    }

    fn saved(&self) -> usize {
        self.length * (self.times - 1)
    }
}

/// What a part waited for, as the end of its line.
fn reason(why: Why) -> &'static str {
    match why {
        Why::Beginning => "the step begins",
        Why::ComputeLane => "the compute lane was free",
        Why::Row => "its row reached it",
        Why::Dependency => "what it needs had ended",
        Why::Message => "its message had arrived",
        Why::OtherEnd => "the other end was ready",
        Why::LinkBusy => "its link was free",
        Why::Synchronization => "the last rank had joined",
        Why::Handling => "the rank handled messages",
        Why::DataRanks => "another data rank joined later",
    }
}

/// The columns of a part before its reason: its beginning, its time, its rank, its text.
fn columns(part: &Part, scale: TimeScale) -> [String; 4] {
    let time = format!("+{}", scale.format(part.end - part.start));
    [scale.format(part.start), time, part.rank.0.to_string(), part.text.clone()]
}

/// The widths of the columns.
fn widths(program: &CheckedProgram, parts: &[Part], scale: TimeScale) -> [usize; 4] {
    let last_rank = program.num_ranks().saturating_sub(1).to_string().len();
    parts.iter().fold([0, 0, last_rank, 0], |widths, part| {
        let own = columns(part, scale).map(|column| column.chars().count());
        [0, 1, 2, 3].map(|number| usize::max(widths[number], own[number]))
    })
}

fn line(part: &Part, scale: TimeScale, [w0, w1, w2, w3]: [usize; 4], mark: &str) -> String {
    let [start, time, rank, text] = columns(part, scale);
    let reason = reason(part.why);
    format!("{mark}{start:>w0$}  {time:<w1$}  rank {rank:<w2$}  {text:<w3$}  {reason}\n")
}

#[cfg(test)]
mod tests;
