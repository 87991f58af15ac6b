//! The waits inside a row: a walk along it that remembers which instruction filled and which emptied each buffer.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::Waits;
use crate::chain::Chain;
use crate::dataflow::{consumed_message, filled_send_slot, produced_message, reads_weights, weight_gradient};
use crate::id::{MicroBatch, Unit};
use crate::instruction::{Edge, Instruction, Lane};
use crate::options::{Reduction, Weights};
use crate::program::Program;
use crate::protocol::{GRADIENT_BUFFERS, RECEIVE_BUFFERS};
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;

/// The waits of every row.
pub(super) fn waits_of_rows(program: &Program, slots: &Slots, send_buffers: &SendBuffers) -> Vec<Waits> {
    // One walk serves all rows: each end of an edge and each unit lies on one rank, so rows share only the allocated
    // tables.
    let mut walk = Walk::new(program, slots, send_buffers);
    program.rows.iter().map(|row| walk.row(row)).collect()
}

/// One end of an edge.
#[derive(Clone, Default)]
struct EdgeEnd {
    /// `[micro-batch]`: position of the compute that makes the message (at the sender) or reads it (at the receiver).
    compute: Vec<Option<usize>>,
    /// `[micro-batch]`: position of the transfer.
    transfer: Vec<Option<usize>>,
    /// The messages in the order of their transfers.
    transfers: Vec<MicroBatch>,
    /// The messages in the order of their computes.
    computes: Vec<MicroBatch>,
}

struct Walk<'a> {
    chain: &'a Chain,
    slots: &'a Slots,
    send_buffers: &'a SendBuffers,
    sharded: bool,
    reduces_every: bool,
    senders: Vec<EdgeEnd>,
    receivers: Vec<EdgeEnd>,
    /// `[unit]`: positions of the gathers whose copies are held, oldest first.
    copies: Vec<VecDeque<usize>>,
    /// `[unit]`: the last `B` or `W`, the last reduction, the optimizer step.
    last_gradient: Vec<Option<usize>>,
    last_reduction: Vec<Option<usize>>,
    step: Vec<Option<usize>>,
    /// Of the row: all `B` and `W`, all reductions, the last instruction on the compute lane.
    gradients: Vec<usize>,
    reductions: Vec<usize>,
    last_compute: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, slots: &'a Slots, send_buffers: &'a SendBuffers) -> Self {
        let chain = &program.chain;
        let num_units = chain.num_units();
        let by_micro_batch = vec![None; program.num_micro_batches as usize];
        let end = EdgeEnd { compute: by_micro_batch.clone(), transfer: by_micro_batch, ..EdgeEnd::default() };
        let ends = vec![end; chain.num_edges()];
        Self {
            chain,
            slots,
            send_buffers,
            sharded: program.options.weights != Weights::Replicated,
            reduces_every: program.options.reduction == Reduction::ScatterEvery,
            senders: ends.clone(),
            receivers: ends,
            copies: vec![VecDeque::new(); num_units],
            last_gradient: vec![None; num_units],
            last_reduction: vec![None; num_units],
            step: vec![None; num_units],
            gradients: Vec::new(),
            reductions: Vec::new(),
            last_compute: None,
        }
    }

    fn row(&mut self, row: &[Instruction]) -> Waits {
        self.gradients.clear();
        self.reductions.clear();
        // A tied unit of another rank must not look reduced at a position of this row.
        self.last_reduction.fill(None);
        self.last_compute = None;
        let mut starts = Vec::with_capacity(row.len() + 1);
        let mut waits = Vec::new();
        for (index, &instruction) in row.iter().enumerate() {
            starts.push(waits.len() as u32);
            let start = waits.len();
            self.push_waits(instruction, &mut waits);
            waits[start..].sort_unstable();
            self.remember(index, instruction);
        }
        starts.push(waits.len() as u32);
        Waits { starts, waits }
    }

    fn push_waits(&self, instruction: Instruction, waits: &mut Vec<usize>) {
        match instruction {
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. } => self.push_compute_waits(instruction, waits),
            Instruction::Unshard { .. } => waits.extend(self.last_compute),
            Instruction::Reshard { .. } | Instruction::OptimizerStep { .. } => {}
            Instruction::Reduce { .. } => waits.extend(self.gradients.get(self.reductions.len())),
            Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } => {
                waits.extend(self.last_gradient[unit.index()]);
            }
            Instruction::Send { edge, micro_batch } => {
                waits.extend(self.senders[edge.index()].compute[micro_batch.index()]);
            }
            Instruction::Receive { edge, .. } => {
                let receiver = &self.receivers[edge.index()];
                if let Some(before) = receiver.transfers.len().checked_sub(RECEIVE_BUFFERS) {
                    waits.extend(receiver.compute[receiver.transfers[before].index()]);
                }
            }
            Instruction::AddTied { embedding, head } => {
                // The other rank waits for its own reductions before it joins the exchange.
                let own = [embedding, head].map(|unit| self.last_reduction[unit.index()]);
                waits.extend(own.into_iter().flatten());
            }
            Instruction::GradientNorm => waits.extend(self.reductions.last()),
            Instruction::GatherAfterStep { unit } => waits.extend(self.step[unit.index()]),
        }
    }

    fn push_compute_waits(&self, compute: Instruction, waits: &mut Vec<usize>) {
        if self.sharded
            && let Some(unit) = reads_weights(self.chain, compute)
        {
            waits.extend(self.copies[unit.index()].front());
        }
        if let Some((edge, micro_batch)) = consumed_message(self.chain, compute) {
            waits.extend(self.receivers[edge.index()].transfer[micro_batch.index()]);
        }
        waits.extend(self.send_out_of_slot(compute));
        if let Some((edge @ Edge::Down(_), _)) = produced_message(self.chain, compute) {
            let sender = &self.senders[edge.index()];
            if let Some(before) = sender.computes.len().checked_sub(self.send_buffers.num_buffers(edge)) {
                waits.extend(sender.transfer[sender.computes[before].index()]);
            }
        }
        if self.reduces_every
            && weight_gradient(compute).is_some()
            && let Some(before) = self.gradients.len().checked_sub(GRADIENT_BUFFERS)
        {
            waits.extend(self.reductions.get(before));
        }
    }

    /// The send that may still read the activation slot which this compute begins to fill.
    fn send_out_of_slot(&self, compute: Instruction) -> Option<usize> {
        let (stage, edge, micro_batch) = filled_send_slot(self.chain, compute)?;
        let previous = self.slots.previous(stage, micro_batch)?;
        self.senders[edge.index()].transfer[previous.index()]
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
            | Instruction::AllReduce { unit } => self.remember_reduction(index, unit),
            Instruction::Send { edge, micro_batch } => {
                remember_transfer(&mut self.senders[edge.index()], index, micro_batch);
            }
            Instruction::Receive { edge, micro_batch } => {
                remember_transfer(&mut self.receivers[edge.index()], index, micro_batch);
            }
            Instruction::OptimizerStep { unit } => self.step[unit.index()] = Some(index),
            _ => self.remember_compute(index, instruction),
        }
    }

    fn remember_compute(&mut self, index: usize, compute: Instruction) {
        if let Some((edge, micro_batch)) = consumed_message(self.chain, compute) {
            remember_end(&mut self.receivers[edge.index()], index, micro_batch);
        }
        if let Some((edge, micro_batch)) = produced_message(self.chain, compute) {
            remember_end(&mut self.senders[edge.index()], index, micro_batch);
        }
        if let Some((unit, _)) = weight_gradient(compute) {
            self.gradients.push(index);
            self.last_gradient[unit.index()] = Some(index);
        }
    }

    fn remember_reduction(&mut self, index: usize, unit: Unit) {
        self.reductions.push(index);
        self.last_reduction[unit.index()] = Some(index);
    }
}

fn remember_end(end: &mut EdgeEnd, index: usize, micro_batch: MicroBatch) {
    end.compute[micro_batch.index()] = Some(index);
    end.computes.push(micro_batch);
}

fn remember_transfer(end: &mut EdgeEnd, index: usize, micro_batch: MicroBatch) {
    end.transfer[micro_batch.index()] = Some(index);
    end.transfers.push(micro_batch);
}
