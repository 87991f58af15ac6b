//! Series: what a rank repeats with one unit or over one edge.
//!
//! The n-th gather of a unit, the forward of its n-th micro-batch: two steps of one schedule have the same series, and a
//! longer step has longer ones. That makes their times comparable without knowing how the schedule is made.

use alloc::vec;
use alloc::vec::Vec;

use super::played::Played;
use crate::id::{PipelineRank, Unit};
use crate::instruction::{Instruction, InstructionKind, Lane};
use crate::protocol::RECEIVE_BUFFERS;
use crate::simulate::timeline::Span;

/// The times of one kind of instruction of a rank with one unit, or over one edge, in row order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Series {
    /// The rank, the number of the [`InstructionKind`], and the unit or edge.
    name: (PipelineRank, usize, usize),
    pub(super) spans: Vec<Span>,
}

impl Series {
    /// All series of a step: by rank, kind, and unit or edge.
    pub(super) fn of(played: &Played) -> Vec<Self> {
        let chain = played.program.chain();
        let num_operands = chain.num_units().max(chain.num_edges()).max(1);
        let num_kinds = InstructionKind::ALL.len();
        let mut found = Vec::new();
        // A table and no map: every instruction is looked up.
        let mut of_rank: Vec<Vec<Span>> = vec![Vec::new(); num_kinds * num_operands];
        for rank in played.program.ranks() {
            for (&instruction, &span) in played.program.row(rank).iter().zip(played.timeline.row(rank)) {
                of_rank[instruction.kind() as usize * num_operands + operand(instruction)].push(span);
            }
            let used = of_rank.iter_mut().enumerate().filter(|(_, spans)| !spans.is_empty());
            found.extend(used.map(|(index, spans)| Self {
                name: (rank, index / num_operands, index % num_operands),
                spans: core::mem::take(spans),
            }));
        }
        found
    }

    /// How many instructions at the front of a longer step's series are these, later by `front`. Those that use each
    /// buffer first count in any case: what arrives in them may have been sent in an earlier turn.
    fn num_alike_before(&self, longer: &Self, front: u64) -> usize {
        let pairs = self.spans.iter().zip(&longer.spans);
        let is_alike = |&(at, (short, long)): &(usize, (&Span, &Span))| {
            at < RECEIVE_BUFFERS || later(*short, front) == Some(*long)
        };
        pairs.enumerate().take_while(is_alike).count()
    }

    /// How many instructions at the back are these, later by `back`.
    fn num_alike_behind(&self, longer: &Self, back: u64) -> usize {
        let pairs = self.spans.iter().rev().zip(longer.spans.iter().rev());
        pairs.take_while(|&(short, long)| later(*short, back) == Some(*long)).count()
    }
}

/// What tells instructions of a kind apart that a row has for one micro-batch.
fn operand(instruction: Instruction) -> usize {
    match (instruction, instruction.lane()) {
        (_, Lane::Edge(edge)) => edge.index(),
        (Instruction::AddTied { embedding, .. }, _) => embedding.index(),
        // A rank has one norm.
        (_, Lane::Compute | Lane::Gather | Lane::Reduce) => instruction.unit().map_or(0, Unit::index),
    }
}

fn later(span: Span, by: u64) -> Option<Span> {
    Some(Span { start: span.start.checked_add(by)?, end: span.end.checked_add(by)? })
}

/// After how many micro-batches the times of a step of `num_micro_batches` repeat in its middle third, if they do: a
/// guess that [`repeated`] has to confirm.
pub(super) fn period(series: &[Series], num_micro_batches: u32) -> Option<u32> {
    let num = num_micro_batches as usize;
    let middle = num / 3..num - num / 3;
    let of_each_micro_batch: Vec<&[Span]> =
        series.iter().filter(|of| of.spans.len() == num).map(|of| &of.spans[middle.clone()]).collect();
    let repeats = |spans: &[Span], period: usize| {
        let mut later =
            spans.iter().zip(&spans[period..]).map(|(of, next)| next.start.wrapping_sub(of.start));
        let first = later.next();
        later.all(|later| Some(later) == first)
    };
    // At least two starts of each series have to agree.
    let periods = 1..middle.len().saturating_sub(1);
    let found =
        periods.into_iter().find(|&period| of_each_micro_batch.iter().all(|of| repeats(of, period)))?;
    Some(found as u32)
}

/// By how much the longer of two steps takes longer, if it is the shorter one with one repetition more.
///
/// Each series of the longer step must be that of the shorter, later by `front` up to some instruction and by `back` from
/// some instruction on; where the longer step has more instructions, the two parts must overlap by a window of `window`
/// micro-batches, so that the pattern is seen to repeat there; where it has not, everything is later by the same. Series
/// that repeat at the same time have the same `front` and `back`, and where the ranks turn to other stages for a second
/// round of repetitions, those begin later by what the first takes: so the parts form a chain from 0 to the whole.
pub(super) fn repeated(short: &[Series], long: &[Series], period: u32, window: u32) -> Option<u64> {
    if short.len() != long.len() {
        return None;
    }
    let mut rounds = Vec::new();
    for (short, long) in short.iter().zip(long) {
        let num_more = long.spans.len().checked_sub(short.spans.len())?;
        let last = long.spans.last()?.start.checked_sub(short.spans.last()?.start)?;
        let mut from_start =
            short.spans.iter().zip(&long.spans).map(|(short, long)| long.start.checked_sub(short.start));
        for first in from_start.by_ref().take(RECEIVE_BUFFERS) {
            rounds.push((first?, first?));
        }
        let front = from_start.next().unwrap_or(Some(last))?;
        let back = last;
        let num_alike = short.num_alike_before(long, front) + short.num_alike_behind(long, back);
        // A window of all series holds as many instructions in proportion.
        let num_twice = (num_more * window as usize).div_ceil(period as usize);
        let is_one_part = num_more > 0 || front == back;
        if short.name != long.name || !is_one_part || num_alike < short.spans.len() + num_twice {
            return None;
        }
        rounds.push((front, back));
    }
    rounds.sort_unstable();
    let (mut round, mut end) = ((0, 0), 0);
    for next in rounds {
        if next != round {
            if next.0 != end {
                return None;
            }
            (round, end) = (next, next.1);
        }
    }
    Some(end)
}
