//! What each instruction of a row touches; who uses which buffer is counted along the row.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::{Reduction, Weights};

use Access::{Read, Write};

/// A buffer of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Buffer {
    /// Of a slot: what forward leaves for backward, and what is sent to the next stage.
    Saved(Stage, usize),
    Output(Stage, usize),
    /// What an `I` saves for its `W`.
    WeightInputs(Stage, usize),
    Received(Edge, usize),
    GradientToSend(Edge, usize),
    Gradient(PipelineRank, usize),
    Accumulator(Unit),
    ReducedGradient(Unit, Reduction),
    Copy(PipelineRank, usize),
    Weights(Unit),
    /// The buffer of a rank for what one unit recomputes, in which the forward of such a unit works too.
    Recomputed(PipelineRank),
}

/// What a buffer holds: a micro-batch, a unit, or both; whatever distinguishes contents.
pub(super) type Content = (u32, u32);

#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// Fills the buffer, or changes it in place.
    Write(Buffer, Content),
    /// Needs this content.
    Read(Buffer, Content),
}

type MakeAccess = fn(Buffer, Content) -> Access;

/// `[index]`: what each instruction of a row touches.
pub(super) fn accesses(program: &CheckedProgram, rank: PipelineRank) -> Vec<Vec<Access>> {
    let mut walk = Walk {
        program,
        rank,
        received: BTreeMap::new(),
        made: BTreeMap::new(),
        copies: BTreeMap::new(),
        gradients: BTreeMap::new(),
    };
    program.row(rank).iter().enumerate().map(|(index, &instruction)| walk.step(index, instruction)).collect()
}

struct Walk<'a> {
    program: &'a CheckedProgram,
    rank: PipelineRank,
    /// The messages of each edge, in the order of their buffers.
    received: BTreeMap<Edge, Vec<MicroBatch>>,
    made: BTreeMap<Edge, Vec<MicroBatch>>,
    /// The buffers of the copies held of each unit, oldest first.
    copies: BTreeMap<Unit, VecDeque<usize>>,
    /// The gradients that are reduced every micro-batch, with their buffers.
    gradients: BTreeMap<Content, usize>,
}

/// Which of an edge's buffers a message takes.
fn buffer_of(messages: &[MicroBatch], micro_batch: MicroBatch, num_buffers: usize) -> usize {
    messages.iter().position(|&of| of == micro_batch).unwrap() % num_buffers
}

impl Walk<'_> {
    fn step(&mut self, index: usize, instruction: Instruction) -> Vec<Access> {
        match instruction {
            Instruction::Forward { unit, micro_batch } => self.forward(unit, micro_batch),
            Instruction::Backward { unit, micro_batch } => {
                let gradient = self.weight_gradient(index, unit, micro_batch);
                [self.input_gradient(unit, micro_batch), gradient.into_iter().collect()].concat()
            }
            Instruction::BackwardInput { unit, micro_batch } => {
                let inputs = self.weight_inputs(unit, micro_batch, Write);
                [self.input_gradient(unit, micro_batch), vec![inputs]].concat()
            }
            Instruction::Recompute { unit, micro_batch } => {
                let [saved, _] = self.change_saved(unit, micro_batch);
                let weights = self.read_weights(unit, self.program.chain().facts(unit).forward_reads_weights);
                [saved, self.recomputed(unit, micro_batch, Write)].into_iter().chain(weights).collect()
            }
            Instruction::BackwardWeight { unit, micro_batch } => {
                let inputs = self.weight_inputs(unit, micro_batch, Read);
                let gradient = self.weight_gradient(index, unit, micro_batch);
                self.change_saved(unit, micro_batch).into_iter().chain([inputs]).chain(gradient).collect()
            }
            _ => self.communication(index, instruction).unwrap_or_else(|| self.tail(instruction)),
        }
    }

    fn read_weights(&self, unit: Unit, reads: bool) -> Option<Access> {
        let sharded = self.program.options().weights != Weights::Replicated;
        let is_gathered = sharded && !self.program.chain().facts(unit).stays_whole();
        (is_gathered && reads).then(|| Read(Buffer::Copy(self.rank, self.copies[&unit][0]), (unit.0, 0)))
    }

    fn weight_inputs(&self, unit: Unit, micro_batch: MicroBatch, access: MakeAccess) -> Access {
        let stage = self.program.chain().stage(unit);
        let buffer = self.program.weight_input_buffer(stage, micro_batch);
        assert!(buffer < self.program.num_weight_input_buffers(stage));
        access(Buffer::WeightInputs(stage, buffer), (micro_batch.0, 0))
    }

    fn recomputed(&self, unit: Unit, micro_batch: MicroBatch, access: MakeAccess) -> Access {
        access(Buffer::Recomputed(self.rank), (unit.0, micro_batch.0))
    }

    fn read_message(&self, edge: Option<Edge>, micro_batch: MicroBatch) -> Option<Access> {
        let edge = edge?;
        let buffer = buffer_of(&self.received[&edge], micro_batch, 2);
        Some(Read(Buffer::Received(edge, buffer), (micro_batch.0, 0)))
    }

    fn change_saved(&self, unit: Unit, micro_batch: MicroBatch) -> [Access; 2] {
        let stage = self.program.chain().stage(unit);
        let saved = Buffer::Saved(stage, self.program.slot(stage, micro_batch));
        [Read(saved, (micro_batch.0, 0)), Write(saved, (micro_batch.0, 0))]
    }

    fn forward(&self, unit: Unit, micro_batch: MicroBatch) -> Vec<Access> {
        let chain = self.program.chain();
        let stage = chain.stage(unit);
        let (is_first, is_last) = (unit == chain.first_unit(stage), unit == chain.last_unit(stage));
        let [read, write] = self.change_saved(unit, micro_batch);
        let mut touched = if is_first { vec![write] } else { vec![read, write] };
        if is_first || is_last {
            // The first unit takes the slot, output and all; the last one fills the output.
            let output = Buffer::Output(stage, self.program.slot(stage, micro_batch));
            touched.push(Write(output, (micro_batch.0, u32::from(!is_last))));
        }
        touched.extend(self.read_weights(unit, chain.facts(unit).forward_reads_weights));
        touched.extend(self.read_message(chain.forward_input(unit), micro_batch));
        if chain.facts(unit).recomputes {
            touched.push(Write(Buffer::Recomputed(self.rank), (u32::MAX, 0)));
        }
        touched
    }

    fn input_gradient(&mut self, unit: Unit, micro_batch: MicroBatch) -> Vec<Access> {
        let chain = self.program.chain();
        let mut touched = self.change_saved(unit, micro_batch).to_vec();
        touched.extend(self.read_weights(unit, chain.facts(unit).backward_reads_weights));
        touched.extend(self.read_message(chain.backward_input(unit), micro_batch));
        if chain.facts(unit).recomputes {
            touched.push(self.recomputed(unit, micro_batch, Read));
        }
        if let Some(edge) = chain.backward_output(unit) {
            let made = self.made.entry(edge).or_default();
            let buffer = made.len() % self.program.num_gradient_send_buffers(edge);
            touched.push(Write(Buffer::GradientToSend(edge, buffer), (micro_batch.0, 0)));
            made.push(micro_batch);
        }
        touched
    }

    fn weight_gradient(&mut self, index: usize, unit: Unit, micro_batch: MicroBatch) -> Vec<Access> {
        let (facts, options) = (self.program.chain().facts(unit), self.program.options());
        let mut touched = Vec::new();
        if options.accumulates(facts) {
            touched.push(Write(Buffer::Accumulator(unit), (0, 0)));
        }
        if !options.reduces(facts, Reduction::ScatterEvery) {
            return touched;
        }
        let buffer = self.program.gradient_buffer(self.rank.at(index)).unwrap();
        let num_bytes = options.unreduced_bytes(facts);
        assert!(
            self.program.gradient_buffers(self.rank)[buffer] >= num_bytes,
            "the gradient fits its buffer"
        );
        self.gradients.insert((unit.0, micro_batch.0), buffer);
        touched.push(Write(Buffer::Gradient(self.rank, buffer), (unit.0, micro_batch.0)));
        touched
    }

    /// What the reductions of a unit leave.
    fn reduced(&self, unit: Unit) -> impl Iterator<Item = Buffer> + '_ {
        let facts = self.program.chain().facts(unit);
        let all = [Reduction::ScatterEvery, Reduction::ScatterLast, Reduction::AllReduceLast];
        let is_of = move |how: &Reduction| self.program.options().reduces(facts, *how);
        all.into_iter().filter(is_of).map(move |how| Buffer::ReducedGradient(unit, how))
    }

    /// What a gather, its end, a reduction or a transfer touches.
    fn communication(&mut self, index: usize, instruction: Instruction) -> Option<Vec<Access>> {
        Some(match instruction {
            Instruction::Unshard { unit } => {
                let buffer = self.program.gather_buffer(self.rank.at(index));
                self.copies.entry(unit).or_default().push_back(buffer);
                vec![Write(Buffer::Copy(self.rank, buffer), (unit.0, 0))]
            }
            Instruction::Reshard { unit } => {
                let copy = self.copies.get_mut(&unit).unwrap().pop_front().unwrap();
                vec![Write(Buffer::Copy(self.rank, copy), (u32::MAX, 0))]
            }
            Instruction::Reduce { unit, micro_batch } => {
                let made = (unit.0, micro_batch.0);
                let gradient = Buffer::Gradient(self.rank, self.gradients[&made]);
                vec![
                    Read(gradient, made),
                    Write(Buffer::ReducedGradient(unit, Reduction::ScatterEvery), (0, 0)),
                ]
            }
            Instruction::ReduceLast { unit } => {
                let sum = Buffer::ReducedGradient(unit, Reduction::ScatterLast);
                vec![Read(Buffer::Accumulator(unit), (0, 0)), Write(sum, (0, 0))]
            }
            Instruction::AllReduce { unit } => {
                let sum = Buffer::ReducedGradient(unit, Reduction::AllReduceLast);
                vec![Read(Buffer::Accumulator(unit), (0, 0)), Write(sum, (0, 0))]
            }
            Instruction::Send { edge: Edge::Up(stage), micro_batch } => {
                let slot = self.program.slot(stage, micro_batch);
                vec![Read(Buffer::Output(stage, slot), (micro_batch.0, 0))]
            }
            Instruction::Send { edge, micro_batch } => {
                let num_buffers = self.program.num_gradient_send_buffers(edge);
                let buffer = buffer_of(&self.made[&edge], micro_batch, num_buffers);
                vec![Read(Buffer::GradientToSend(edge, buffer), (micro_batch.0, 0))]
            }
            Instruction::Receive { edge, micro_batch } => {
                let received = self.received.entry(edge).or_default();
                let buffer = Buffer::Received(edge, received.len() % 2);
                received.push(micro_batch);
                vec![Write(buffer, (micro_batch.0, 0))]
            }
            _ => return None,
        })
    }

    fn tail(&self, instruction: Instruction) -> Vec<Access> {
        let chain = self.program.chain();
        match instruction {
            Instruction::AddTied { embedding, head } => {
                let here = [embedding, head].into_iter().filter(|&unit| chain.rank(unit) == self.rank);
                here.flat_map(|unit| self.reduced(unit)).map(|sum| Write(sum, (1, 0))).collect()
            }
            Instruction::GradientNorm => {
                let is_tied = |unit| chain.tied_pairs().iter().any(|&(a, b)| unit == a || unit == b);
                let read = |unit| self.reduced(unit).map(move |sum| Read(sum, (u32::from(is_tied(unit)), 0)));
                chain.units_on(self.rank).flat_map(read).collect()
            }
            Instruction::OptimizerStep { unit } => vec![Write(Buffer::Weights(unit), (0, 0))],
            Instruction::GatherAfterStep { unit } => vec![Read(Buffer::Weights(unit), (0, 0))],
            other => panic!("{other} is not of the tail"),
        }
    }
}
