//! The waits inside a row: a walk along it that remembers which instruction filled and which emptied each buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Waits;
use crate::chain::Chain;
use crate::dataflow::{
    consumed_message, filled_send_slot, produced_message, reads_weights, unreduced_gradient, weight_gradient,
};
use crate::edge_end::EdgeEnd;
use crate::gradient_buffers::GradientBuffers;
use crate::instruction::{Edge, Instruction, Lane};
use crate::options::{LowerOptions, Weights};
use crate::program::Program;
use crate::protocol::RECEIVE_BUFFERS;
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;

/// The waits of every row, and the positions of the other ends of its transfers.
pub(super) fn waits_and_peers(
    program: &Program,
    slots: &Slots,
    send_buffers: &SendBuffers,
    gradient_buffers: &[GradientBuffers],
) -> (Vec<Waits>, Vec<Vec<Option<u32>>>) {
    // One walk serves all rows: each end of an edge and each unit lies on one rank, so rows share only the allocated
    // tables.
    let mut walk = Walk::new(program, slots, send_buffers);
    let waits =
        program.rows.iter().zip(gradient_buffers).map(|(row, gradients)| walk.row(row, gradients)).collect();
    let peer = |instruction: &Instruction| {
        let position = match *instruction {
            Instruction::Send { edge, micro_batch } => walk.receivers[edge.index()].transfer(micro_batch),
            Instruction::Receive { edge, micro_batch } => walk.senders[edge.index()].transfer(micro_batch),
            _ => None,
        };
        position.map(|position| position as u32)
    };
    let peers = program.rows.iter().map(|row| row.iter().map(peer).collect()).collect();
    (waits, peers)
}

struct Walk<'a> {
    chain: &'a Chain,
    slots: &'a Slots,
    send_buffers: &'a SendBuffers,
    options: &'a LowerOptions,
    senders: Vec<EdgeEnd>,
    receivers: Vec<EdgeEnd>,
    /// `[unit]`: positions of the gathers whose copies are held, oldest first.
    copies: Vec<VecDeque<usize>>,
    /// `[unit]`: the last `B` or `W`, the last reduction, the optimizer step.
    last_gradient: Vec<Option<usize>>,
    last_reduction: Vec<Option<usize>>,
    step: Vec<Option<usize>>,
    /// Of the row, of units that are reduced after every micro-batch: all `B` and `W`, and their reductions.
    gradients: Vec<usize>,
    reductions: Vec<usize>,
    /// Of the row: the last reduction of any unit, the last instruction on the compute lane.
    last_of_reductions: Option<usize>,
    last_compute: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, slots: &'a Slots, send_buffers: &'a SendBuffers) -> Self {
        let chain = &program.chain;
        let num_units = chain.num_units();
        let ends = vec![EdgeEnd::new(program.num_micro_batches); chain.num_edges()];
        Self {
            chain,
            slots,
            send_buffers,
            options: &program.options,
            senders: ends.clone(),
            receivers: ends,
            copies: vec![VecDeque::new(); num_units],
            last_gradient: vec![None; num_units],
            last_reduction: vec![None; num_units],
            step: vec![None; num_units],
            gradients: Vec::new(),
            reductions: Vec::new(),
            last_of_reductions: None,
            last_compute: None,
        }
    }

    fn row(&mut self, row: &[Instruction], gradient_buffers: &GradientBuffers) -> Waits {
        self.gradients.clear();
        self.reductions.clear();
        self.last_of_reductions = None;
        // A tied unit of another rank must not look reduced at a position of this row.
        self.last_reduction.fill(None);
        self.last_compute = None;
        let mut starts = Vec::with_capacity(row.len() + 1);
        let mut waits = Vec::new();
        for (index, &instruction) in row.iter().enumerate() {
            starts.push(waits.len() as u32);
            let start = waits.len();
            self.push_waits(instruction, gradient_buffers, &mut waits);
            waits[start..].sort_unstable();
            self.remember(index, instruction);
        }
        starts.push(waits.len() as u32);
        Waits { starts, waits }
    }

    fn push_waits(
        &self,
        instruction: Instruction,
        gradient_buffers: &GradientBuffers,
        waits: &mut Vec<usize>,
    ) {
        match instruction {
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. } => self.push_compute_waits(instruction, gradient_buffers, waits),
            Instruction::Unshard { .. } => waits.extend(self.last_compute),
            Instruction::Reshard { .. } | Instruction::OptimizerStep { .. } => {}
            Instruction::Reduce { .. } => waits.extend(self.gradients.get(self.reductions.len())),
            Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } => {
                waits.extend(self.last_gradient[unit.index()]);
            }
            Instruction::Send { edge, micro_batch } => {
                waits.extend(self.senders[edge.index()].compute(micro_batch));
            }
            Instruction::Receive { edge, .. } => {
                let receiver = &self.receivers[edge.index()];
                let before = receiver.before_next_transfer(RECEIVE_BUFFERS);
                waits.extend(before.and_then(|before| receiver.compute(before)));
            }
            Instruction::AddTied { embedding, head } => {
                // The other rank waits for its own reductions before it joins the exchange.
                let own = [embedding, head].map(|unit| self.last_reduction[unit.index()]);
                waits.extend(own.into_iter().flatten());
            }
            Instruction::GradientNorm => waits.extend(self.last_of_reductions),
            Instruction::GatherAfterStep { unit } => waits.extend(self.step[unit.index()]),
        }
    }

    fn push_compute_waits(
        &self,
        compute: Instruction,
        gradient_buffers: &GradientBuffers,
        waits: &mut Vec<usize>,
    ) {
        if self.options.weights != Weights::Replicated
            && let Some(unit) = reads_weights(self.chain, compute)
        {
            waits.extend(self.copies[unit.index()].front());
        }
        if let Some((edge, micro_batch)) = consumed_message(self.chain, compute) {
            waits.extend(self.receivers[edge.index()].transfer(micro_batch));
        }
        waits.extend(self.send_out_of_slot(compute));
        if let Some((edge @ Edge::Down(_), _)) = produced_message(self.chain, compute) {
            let sender = &self.senders[edge.index()];
            let before = sender.before_next_compute(self.send_buffers.num_buffers(edge));
            waits.extend(before.and_then(|before| sender.transfer(before)));
        }
        if unreduced_gradient(self.chain, self.options, compute).is_some()
            && let Some(before) = gradient_buffers.previous(self.gradients.len())
        {
            waits.extend(self.reductions.get(before));
        }
    }

    /// The send that may still read the activation slot which this compute begins to fill.
    fn send_out_of_slot(&self, compute: Instruction) -> Option<usize> {
        let (stage, edge, micro_batch) = filled_send_slot(self.chain, compute)?;
        let previous = self.slots.previous(stage, micro_batch)?;
        self.senders[edge.index()].transfer(previous)
    }

    fn remember(&mut self, index: usize, instruction: Instruction) {
        if instruction.lane() == Lane::Compute {
            self.last_compute = Some(index);
        }
        match instruction {
            Instruction::Unshard { unit } => self.copies[unit.index()].push_back(index),
            Instruction::Reshard { unit } => {
                self.copies[unit.index()].pop_front();
            }
            Instruction::Reduce { unit, .. }
            | Instruction::ReduceLast { unit }
            | Instruction::AllReduce { unit } => {
                if instruction.micro_batch().is_some() {
                    self.reductions.push(index);
                }
                self.last_of_reductions = Some(index);
                self.last_reduction[unit.index()] = Some(index);
            }
            Instruction::Send { edge, micro_batch } => {
                self.senders[edge.index()].add_transfer(index, micro_batch);
            }
            Instruction::Receive { edge, micro_batch } => {
                self.receivers[edge.index()].add_transfer(index, micro_batch);
            }
            Instruction::OptimizerStep { unit } => self.step[unit.index()] = Some(index),
            _ => self.remember_compute(index, instruction),
        }
    }

    fn remember_compute(&mut self, index: usize, compute: Instruction) {
        if let Some((edge, micro_batch)) = consumed_message(self.chain, compute) {
            self.receivers[edge.index()].add_compute(index, micro_batch);
        }
        if let Some((edge, micro_batch)) = produced_message(self.chain, compute) {
            self.senders[edge.index()].add_compute(index, micro_batch);
        }
        if unreduced_gradient(self.chain, self.options, compute).is_some() {
            self.gradients.push(index);
        }
        if let Some((unit, _)) = weight_gradient(self.chain, compute) {
            self.last_gradient[unit.index()] = Some(index);
        }
    }
}
