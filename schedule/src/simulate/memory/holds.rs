//! From when to when a rank holds each of its buffers.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::bytes::{MemoryBytes, MemoryCategory, MemoryCosts, UnitMemory};
use crate::by_micro_batch::ByMicroBatch;
use crate::check::CheckedProgram;
use crate::dataflow::{consumed_message, produced_message, unreduced_gradient};
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::program::Purpose;
use crate::simulate::timeline::{Span, Timeline};

/// A buffer is taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) time: u64,
    pub(super) takes: bool,
    pub(super) category: MemoryCategory,
    pub(super) num_bytes: u64,
}

impl Moment {
    pub(super) fn apply(self, held: &mut MemoryBytes) {
        if self.takes {
            held[self.category] += self.num_bytes;
        } else {
            held[self.category] -= self.num_bytes;
        }
    }
}

/// Walks along rows and remembers what is held since when. One walk serves all rows, since each stage, and each end of an
/// edge, lies on one rank.
pub(super) struct Holds<'a> {
    program: &'a CheckedProgram,
    timeline: &'a Timeline,
    costs: &'a MemoryCosts,
    /// `[stage, micro-batch]`: since when the slot is held, and the buffer of weight-gradient inputs.
    slots: ByMicroBatch<u64>,
    /// `[stage, micro-batch]`: when the first of its last two readers ended, the backward and the send.
    read: ByMicroBatch<Option<u64>>,
    weight_inputs: ByMicroBatch<u64>,
    /// `[edge, micro-batch]`: since when the receive buffer is held, and the send buffer.
    received: ByMicroBatch<u64>,
    to_send: ByMicroBatch<u64>,
    /// `[unit]`: since when the copies are held, oldest first.
    copies: Vec<VecDeque<u64>>,
    /// The gradients that are not reduced yet, in the order in which they are made.
    gradients: VecDeque<(Unit, u64)>,
    moments: Vec<Moment>,
}

impl<'a> Holds<'a> {
    pub(super) fn new(program: &'a CheckedProgram, timeline: &'a Timeline, costs: &'a MemoryCosts) -> Self {
        let table = |len| ByMicroBatch::new(len, program.num_micro_batches(), 0);
        let (of_stages, of_edges) = (table(program.chain().num_stages()), table(program.chain().num_edges()));
        Self {
            program,
            timeline,
            costs,
            slots: of_stages.clone(),
            read: ByMicroBatch::new(program.chain().num_stages(), program.num_micro_batches(), None),
            weight_inputs: of_stages,
            received: of_edges.clone(),
            to_send: of_edges,
            copies: vec![VecDeque::new(); program.units().len()],
            gradients: VecDeque::new(),
            moments: Vec::new(),
        }
    }

    /// When the rank takes and gives back its buffers, by time; what is given back at a time comes before what is taken.
    pub(super) fn of_rank(&mut self, rank: PipelineRank) -> &[Moment] {
        self.moments.clear();
        let (program, timeline) = (self.program, self.timeline);
        for (&instruction, &span) in program.row(rank).iter().zip(timeline.row(rank)) {
            self.gathered(instruction, span);
            self.activations(instruction, span);
            self.gradients(instruction, span);
            self.messages(instruction, span);
        }
        // One number is compared faster than a pair.
        self.moments.sort_unstable_by_key(|moment| u128::from(moment.time) << 1 | u128::from(moment.takes));
        &self.moments
    }

    fn hold(&mut self, category: MemoryCategory, num_bytes: u64, from: u64, until: u64) {
        if num_bytes > 0 && from < until {
            self.moments.push(Moment { time: from, takes: true, category, num_bytes });
            self.moments.push(Moment { time: until, takes: false, category, num_bytes });
        }
    }

    fn gathered(&mut self, instruction: Instruction, span: Span) {
        match instruction {
            Instruction::Unshard { unit } => self.copies[unit.index()].push_back(span.start),
            Instruction::Reshard { unit } => {
                let from = self.copies[unit.index()].pop_front().expect("a checked reshard frees a copy");
                let num_bytes = self.program.chain().facts(unit).num_bytes;
                self.hold(MemoryCategory::Gathered, num_bytes, from, span.end);
            }
            _ => {}
        }
    }

    fn activations(&mut self, instruction: Instruction, span: Span) {
        let chain = self.program.chain();
        match instruction {
            Instruction::Forward { unit, micro_batch } => {
                if chain.is_first(unit) {
                    self.slots[(chain.stage(unit).index(), micro_batch)] = span.start;
                }
                self.read_by_evaluation(unit, micro_batch, span);
            }
            Instruction::BackwardInput { unit, micro_batch } if chain.is_last(unit) => {
                self.weight_inputs[(chain.stage(unit).index(), micro_batch)] = span.start;
            }
            // The last to read the slot.
            Instruction::Backward { unit, micro_batch } if chain.is_first(unit) => {
                self.end_of_backward_or_send(chain.stage(unit), micro_batch, span.end);
            }
            Instruction::BackwardWeight { unit, micro_batch } if chain.is_first(unit) => {
                let stage = chain.stage(unit);
                self.end_of_backward_or_send(stage, micro_batch, span.end);
                let from = self.weight_inputs[(stage.index(), micro_batch)];
                let num_bytes = self.of_stage(stage, |unit| unit.weight_input_bytes);
                self.hold(MemoryCategory::Activations, num_bytes, from, span.end);
            }
            Instruction::Send { edge: Edge::Up(stage), micro_batch } => match self.program.purpose() {
                Purpose::Training => self.end_of_backward_or_send(stage, micro_batch, span.end),
                Purpose::Evaluation => self.give_back_slot(stage, micro_batch, span.end),
            },
            _ => {}
        }
    }

    /// An evaluating forward gives back its own slot, if it is the last to read it, and that of the stage before, if it
    /// reads its input there. What is sent is given back by its send.
    fn read_by_evaluation(&mut self, unit: Unit, micro_batch: MicroBatch, span: Span) {
        let chain = self.program.chain();
        if self.program.purpose() == Purpose::Training {
            return;
        }
        let stage = chain.stage(unit);
        if chain.is_last(unit) && stage.index() + 1 == chain.num_stages() {
            self.give_back_slot(stage, micro_batch, span.end);
        }
        if let Some(before) = stage.0.checked_sub(1).map(Stage)
            && chain.is_first(unit)
            && !chain.crosses_ranks(Edge::Up(before))
        {
            self.give_back_slot(before, micro_batch, span.end);
        }
    }

    /// When training a slot is given back once both have ended. A backward that waits for no gradient may do so before the send.
    fn end_of_backward_or_send(&mut self, stage: Stage, micro_batch: MicroBatch, end: u64) {
        let is_sent = self.program.chain().crosses_ranks(Edge::Up(stage));
        match self.read[(stage.index(), micro_batch)].replace(end) {
            None if is_sent => {}
            first => self.give_back_slot(stage, micro_batch, first.map_or(end, |first| first.max(end))),
        }
    }

    fn give_back_slot(&mut self, stage: Stage, micro_batch: MicroBatch, end: u64) {
        let from = self.slots[(stage.index(), micro_batch)];
        let num_bytes = self.of_stage(stage, |unit| unit.saved_bytes);
        self.hold(MemoryCategory::Activations, num_bytes, from, end);
    }

    fn of_stage(&self, stage: Stage, num_bytes: fn(&UnitMemory) -> u64) -> u64 {
        let units = self.program.chain().units_of(stage);
        units.map(|unit| num_bytes(&self.costs.units[unit as usize])).sum()
    }

    /// Gradients are reduced in the order in which they are made.
    fn gradients(&mut self, instruction: Instruction, span: Span) {
        let gradient = unreduced_gradient(self.program.chain(), self.program.options(), instruction);
        if let Some((unit, _)) = gradient {
            self.gradients.push_back((unit, span.start));
        } else if let Instruction::Reduce { .. } = instruction {
            let (unit, from) = self.gradients.pop_front().expect("a checked reduction has a gradient");
            let num_bytes = self.costs.units[unit.index()].gradient_bytes;
            self.hold(MemoryCategory::Gradients, num_bytes, from, span.end);
        }
    }

    fn messages(&mut self, instruction: Instruction, span: Span) {
        let program = self.program;
        match instruction {
            Instruction::Receive { edge, micro_batch } => {
                self.received[(edge.index(), micro_batch)] = span.start;
            }
            Instruction::Send { edge: edge @ Edge::Down(_), micro_batch } => {
                self.hold_message(edge, self.to_send[(edge.index(), micro_batch)], span.end);
            }
            _ => {
                if let Some((edge, micro_batch)) = consumed_message(program.chain(), instruction) {
                    self.hold_message(edge, self.received[(edge.index(), micro_batch)], span.end);
                }
                if let Some((edge @ Edge::Down(_), micro_batch)) =
                    produced_message(program.chain(), instruction)
                {
                    self.to_send[(edge.index(), micro_batch)] = span.start;
                }
            }
        }
    }

    fn hold_message(&mut self, edge: Edge, from: u64, until: u64) {
        self.hold(MemoryCategory::Communication, self.costs.message_bytes[edge.index()], from, until);
    }
}
