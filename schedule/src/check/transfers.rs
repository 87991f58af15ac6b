//! Messages are made before they are sent, received before they are read, in the same order at both ends, and every
//! buffer that is filled is free.

use alloc::vec::Vec;

use super::{Checked, Rule, Violation, check_each, fills_free, runs_after};
use crate::chain::Chain;
use crate::dataflow::{consumed_message, filled_send_slot, produced_message};
use crate::edge_end::EdgeEnd;
use crate::id::MicroBatch;
use crate::instruction::{Edge, Instruction};
use crate::program::Program;
use crate::protocol::RECEIVE_BUFFERS;
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;

pub(super) fn check(program: &Program, slots: &Slots, send_buffers: &SendBuffers) -> Checked {
    let ends = vec![EdgeEnd::new(program.num_micro_batches); program.chain.num_edges()];
    let (chain, senders, receivers) = (&program.chain, ends.clone(), ends);
    let mut walk = Walk { chain, slots, send_buffers, senders, receivers };
    check_each(program, |_, step, instruction| walk.step(step, instruction))?;
    same_order(program, &walk)
}

struct Walk<'a> {
    chain: &'a Chain,
    slots: &'a Slots,
    send_buffers: &'a SendBuffers,
    senders: Vec<EdgeEnd>,
    receivers: Vec<EdgeEnd>,
}

impl Walk<'_> {
    fn step(&mut self, step: usize, instruction: Instruction) -> Result<(), Rule> {
        match instruction {
            Instruction::Send { edge, micro_batch } => self.send(step, edge, micro_batch),
            Instruction::Receive { edge, micro_batch } => self.receive(step, edge, micro_batch),
            _ => {
                self.slot_is_free(instruction)?;
                self.consume(step, instruction)?;
                self.produce(step, instruction)
            }
        }
    }

    fn send(&mut self, step: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Rule> {
        let sender = &mut self.senders[edge.index()];
        let needed = edge.compute(self.chain.producer(edge), micro_batch);
        let is_made = sender.compute(micro_batch).is_some();
        runs_after(is_made, Instruction::Send { edge, micro_batch }, needed)?;
        sender.add_transfer(step, micro_batch);
        Ok(())
    }

    fn receive(&mut self, step: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Rule> {
        let receiver = &mut self.receivers[edge.index()];
        if let Some(held) = receiver.before_next_transfer(RECEIVE_BUFFERS) {
            let freed_by = edge.compute(self.chain.consumer(edge), held);
            let is_read = receiver.compute(held).is_some();
            fills_free(is_read, Instruction::Receive { edge, micro_batch }, freed_by)?;
        }
        receiver.add_transfer(step, micro_batch);
        Ok(())
    }

    fn consume(&mut self, step: usize, instruction: Instruction) -> Result<(), Rule> {
        let Some((edge, micro_batch)) = consumed_message(self.chain, instruction) else { return Ok(()) };
        let receiver = &mut self.receivers[edge.index()];
        let is_received = receiver.transfer(micro_batch).is_some();
        runs_after(is_received, instruction, Instruction::Receive { edge, micro_batch })?;
        receiver.add_compute(step, micro_batch);
        Ok(())
    }

    fn produce(&mut self, step: usize, instruction: Instruction) -> Result<(), Rule> {
        let Some((edge, micro_batch)) = produced_message(self.chain, instruction) else { return Ok(()) };
        let sender = &mut self.senders[edge.index()];
        if let Edge::Down(_) = edge
            && let Some(held) = sender.before_next_compute(self.send_buffers.num_buffers(edge))
        {
            let freed_by = Instruction::Send { edge, micro_batch: held };
            fills_free(sender.transfer(held).is_some(), instruction, freed_by)?;
        }
        sender.add_compute(step, micro_batch);
        Ok(())
    }

    /// An activation is sent out of its slot, so the send is issued before the slot is filled again.
    fn slot_is_free(&self, instruction: Instruction) -> Result<(), Rule> {
        if let Some((stage, edge, micro_batch)) = filled_send_slot(self.chain, instruction)
            && let Some(previous) = self.slots.previous(stage, micro_batch)
        {
            let freed_by = Instruction::Send { edge, micro_batch: previous };
            fills_free(self.senders[edge.index()].transfer(previous).is_some(), instruction, freed_by)?;
        }
        Ok(())
    }
}

/// The n-th send of every edge is of the micro-batch of its n-th receive.
fn same_order(program: &Program, walk: &Walk<'_>) -> Checked {
    for edge in program.chain.edges() {
        let [sender, receiver] = [&walk.senders, &walk.receivers].map(|ends| &ends[edge.index()]);
        let mut pairs = sender.transfers().iter().zip(receiver.transfers());
        if let Some((&sent, &received)) = pairs.find(|(sent, received)| sent != received) {
            let rank = program.chain.placement().rank(edge.receiver());
            let step = receiver.transfer(received).expect("it is among the transfers");
            let rule = Rule::ReceivedOutOfOrder { edge, received, sent };
            return Err(Violation::new(program, rank, step, rule));
        }
    }
    Ok(())
}
