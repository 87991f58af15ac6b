//! The bars of a row. Instructions that follow each other without a gap share a bar.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::gantt::Gantt;
use super::layout::Layout;
use super::row::{Row, shown};
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Activity, Instruction, Lane};
use crate::placement::Placement;
use crate::simulate::Span;

/// Bars thinner than this, in hundredths of a pixel, are drawn together.
const THIN: u64 = 50;

/// A bar from left to right, in hundredths of a pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) activity: Activity,
    /// How pale a compute is: the stages of a rank go from 0, the first, to 100, the last.
    pub(super) paleness: u64,
    /// The micro-batch of a compute.
    pub(super) label: Option<String>,
    pub(super) title: String,
}

/// The bars of a row of a rank, and how many instructions are drawn together because they are thin.
pub(super) fn bars(gantt: &Gantt<'_>, layout: &Layout, rank: PipelineRank, row: Row) -> (Vec<Bar>, usize) {
    let (mut bars, mut num_together) = (Vec::new(), 0);
    let mut thin: Option<Together> = None;
    for work in works(gantt, rank, row) {
        let (from, to) = (layout.x(work.span.start), layout.x(work.span.end));
        if to - from >= THIN {
            bars.extend(thin.take().map(|together| together.bar(gantt)));
            bars.push(work.bar(gantt, from, to));
            continue;
        }
        num_together += work.num_instructions;
        match &mut thin {
            Some(together) if from < together.to + THIN => together.add(&work, to),
            _ => bars.extend(thin.replace(Together::new(&work, from, to)).map(|of| of.bar(gantt))),
        }
    }
    bars.extend(thin.map(|together| together.bar(gantt)));
    (bars, num_together)
}

/// The duration that nine of ten computes with a number last at least, and the most digits of a number; `None` where none has one.
pub(super) fn narrowest_labelled(gantt: &Gantt<'_>) -> Option<(u64, usize)> {
    let computes = gantt.program.ranks().flat_map(|rank| works(gantt, rank, Row::Compute));
    let labelled: Vec<(u64, u32)> = computes
        .filter_map(|work| Some((work.span.end - work.span.start, work.of.1?.0)))
        .filter(|(duration, _)| *duration > 0)
        .collect();
    let num_digits = labelled.iter().map(|(_, number)| number.to_string().len()).max()?;
    let mut durations: Vec<u64> = labelled.into_iter().map(|(duration, _)| duration).collect();
    durations.sort_unstable();
    Some((durations[durations.len() / 10], num_digits))
}

/// Instructions of one kind, stage and micro-batch that follow each other without a gap.
struct Work {
    span: Span,
    activity: Activity,
    of: (Option<Stage>, Option<MicroBatch>),
    first: Instruction,
    last_unit: Option<Unit>,
    num_instructions: usize,
}

/// What a row shows, by time.
fn works(gantt: &Gantt<'_>, rank: PipelineRank, row: Row) -> Vec<Work> {
    let program = gantt.program;
    let mut shown: Vec<(Instruction, Span)> =
        shown(gantt, rank).filter(|&(of, _)| Row::of(of) == row).collect();
    shown.sort_by_key(|(_, span)| (span.start, span.end));
    let mut works: Vec<Work> = Vec::new();
    for (instruction, span) in shown {
        let unit = instruction.unit();
        let of = (unit.map(|unit| program.chain().stage(unit)), instruction.micro_batch());
        let activity = instruction.activity();
        let new = Work { span, activity, of, first: instruction, last_unit: None, num_instructions: 1 };
        match works.last_mut() {
            // Each message has its own bar; the units of a stage share that of their forward or backward.
            Some(work)
                if row == Row::Compute
                    && (work.activity, work.of, work.span.end) == (activity, of, span.start) =>
            {
                work.span.end = span.end;
                work.last_unit = unit;
                work.num_instructions += 1;
            }
            _ => works.push(new),
        }
    }
    works
}

impl Work {
    fn bar(&self, gantt: &Gantt<'_>, from: u64, to: u64) -> Bar {
        let last = self.last_unit.map(|unit| format!(" to {unit}")).unwrap_or_default();
        let computes = self.first.lane() == Lane::Compute;
        let (stage, micro_batch) = self.of;
        let stage = stage.filter(|_| computes && micro_batch.is_some());
        Bar {
            from,
            to,
            activity: self.activity,
            paleness: stage.map_or(0, |stage| paleness(gantt.program.placement(), stage)),
            label: micro_batch.filter(|_| computes).map(|of| of.0.to_string()),
            title: format!("{}{last}, {}", self.first, times(gantt, self.span)),
        }
    }
}

/// Thin instructions that are neighbours, drawn in the colour of what takes most of their time.
struct Together {
    from: u64,
    to: u64,
    span: Span,
    times: [u64; Activity::ALL.len()],
    num_instructions: usize,
}

impl Together {
    fn new(work: &Work, from: u64, to: u64) -> Self {
        let times = [0; Activity::ALL.len()];
        let mut together = Self { from, to, span: work.span, times, num_instructions: 0 };
        together.add(work, to);
        together
    }

    fn add(&mut self, work: &Work, to: u64) {
        // Messages may overlap, and a later one may end earlier.
        self.to = self.to.max(to);
        self.span.end = self.span.end.max(work.span.end);
        self.times[work.activity as usize] += work.span.end - work.span.start;
        self.num_instructions += work.num_instructions;
    }

    fn bar(self, gantt: &Gantt<'_>) -> Bar {
        let time = |activity: &Activity| self.times[*activity as usize];
        let most = Activity::ALL.into_iter().rev().max_by_key(time).unwrap_or(Activity::Bookkeeping);
        Bar {
            from: self.from,
            // So that it is seen at all.
            to: self.to.max(self.from + THIN),
            activity: most,
            paleness: 0,
            label: None,
            title: format!("{} instructions, {}", self.num_instructions, times(gantt, self.span)),
        }
    }
}

/// In proportion to how many stages of its rank come before it.
fn paleness(placement: &Placement, stage: Stage) -> u64 {
    let of_rank = || placement.stages(placement.rank(stage));
    let (before, others) = (of_rank().take_while(|of| *of < stage).count(), of_rank().count() - 1);
    (100 * before).checked_div(others).unwrap_or(0) as u64
}

fn times(gantt: &Gantt<'_>, span: Span) -> String {
    format!("{} to {}", gantt.scale.format(span.start), gantt.scale.format(span.end))
}
