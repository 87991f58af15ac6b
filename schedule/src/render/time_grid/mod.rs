//! A timeline as text: time runs to the right in proportion, a line per rank, as the pictures of the zero-bubble papers.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::scale::TimeScale;
use crate::check::CheckedProgram;
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::{Instruction, InstructionKind};
use crate::simulate::{Span, Timeline};

/// Columns that a tick of the axis takes at least.
const TICK_COLUMNS: usize = 10;

/// Columns at most, even if a larger width is asked for.
const COLUMNS_MAX: usize = 100_000;

/// A timeline as a grid of `width` characters at most (and at least a few): `F0--` is a forward of micro-batch 0 that takes
/// four columns, `B`, `I` and `W` are backwards and their halves, `R` is a recompute, `S` the optimizer's step, a dot idle
/// time. Where ranks hold several stages, a stage stands before the letter if it fits. What is thinner than half a column
/// is left out.
///
/// # Panics
/// If the timeline is not of this program.
pub fn time_grid(program: &CheckedProgram, timeline: &Timeline, width: usize, scale: TimeScale) -> String {
    let title_width = format!("rank {}  ", program.num_ranks().saturating_sub(1)).len();
    let columns = Columns {
        num: width.saturating_sub(title_width).clamp(1, COLUMNS_MAX),
        makespan: timeline.makespan(),
    };
    let mut text = String::new();
    for rank in program.ranks() {
        let mut line = vec![b'.'; columns.num];
        for (work, filled) in cells(program, timeline, rank, columns) {
            let label = work.label(program, filled.len());
            line[filled.clone()].fill(b'-');
            line[filled][..label.len()].copy_from_slice(label.as_bytes());
        }
        let title = format!("rank {}", rank.0);
        let line: String = line.into_iter().map(char::from).collect();
        text.push_str(&format!("{title:<title_width$}{line}\n"));
    }
    let axis = format!("{}{}", " ".repeat(title_width), axis(columns, scale));
    text.push_str(axis.trim_end());
    text.push('\n');
    text
}

/// Columns that share a time evenly.
#[derive(Clone, Copy)]
struct Columns {
    num: usize,
    makespan: u64,
}

impl Columns {
    /// The column whose left end is nearest to a time.
    fn at(self, time: u64) -> usize {
        let makespan = u128::from(self.makespan.max(1));
        ((u128::from(time) * self.num as u128 + makespan / 2) / makespan) as usize
    }
}

/// What a stage does with a micro-batch; its units are one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Work {
    letter: char,
    stage: Stage,
    micro_batch: Option<MicroBatch>,
}

impl Work {
    fn of(program: &CheckedProgram, instruction: Instruction) -> Option<Self> {
        let is_step = instruction.kind() == InstructionKind::OptimizerStep;
        if !is_step && !instruction.is_micro_batch_compute() {
            return None;
        }
        let letter = instruction.kind().word().chars().next()?;
        let stage = program.chain().stage(instruction.unit()?);
        Some(Self { letter, stage, micro_batch: instruction.micro_batch() })
    }

    /// The longest name that fits, the letter alone if none does.
    fn label(self, program: &CheckedProgram, width: usize) -> String {
        let Self { letter, stage, micro_batch } = self;
        let micro_batch = micro_batch.map(|of| of.0.to_string()).unwrap_or_default();
        let short = format!("{letter}{micro_batch}");
        let has_several = program.placement().num_stages() > program.num_ranks();
        let long = if has_several { format!("{}{short}", stage.0) } else { short.clone() };
        [long, short].into_iter().find(|label| label.len() <= width).unwrap_or_else(|| letter.to_string())
    }
}

/// The work of a rank, and the columns that it fills: units of a stage that follow each other without a gap are one.
fn cells(
    program: &CheckedProgram,
    timeline: &Timeline,
    rank: PipelineRank,
    columns: Columns,
) -> impl Iterator<Item = (Work, Range<usize>)> {
    let mut cells: Vec<(Work, Range<usize>)> = Vec::new();
    for (&instruction, &Span { start, end }) in program.row(rank).iter().zip(timeline.row(rank)) {
        let Some(work) = Work::of(program, instruction) else { continue };
        let (from, to) = (columns.at(start), columns.at(end));
        match cells.last_mut() {
            Some((last, filled)) if *last == work && filled.end == from => filled.end = to,
            _ => cells.push((work, from..to)),
        }
    }
    cells.into_iter().filter(|(_, filled)| !filled.is_empty())
}

/// Ticks with their times, each beginning at its column.
fn axis(columns: Columns, scale: TimeScale) -> String {
    let mut axis = String::new();
    let mut used = 0;
    for tick in scale.ticks(columns.makespan, (columns.num / TICK_COLUMNS) as u64) {
        let (at, label) = (columns.at(tick), format!("|{}", scale.format(tick)));
        if at >= used && at + label.chars().count() <= columns.num {
            axis.push_str(&" ".repeat(at - used));
            used = at + label.chars().count();
            axis.push_str(&label);
        }
    }
    axis
}

#[cfg(test)]
mod tests;
