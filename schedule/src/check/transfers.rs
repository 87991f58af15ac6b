//! Messages are made before they are sent, received before they are read, in the same order at both ends, and every
//! buffer that is filled is free.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::{Rule, Violation};
use crate::chain::Chain;
use crate::dataflow::{consumed_message, filled_send_slot, produced_message};
use crate::id::MicroBatch;
use crate::instruction::{Edge, Instruction};
use crate::program::Program;
use crate::protocol::RECEIVE_BUFFERS;
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;

pub(super) fn check(
    program: &Program,
    slots: &Slots,
    send_buffers: &SendBuffers,
) -> Result<(), Box<Violation>> {
    let num_edges = program.chain.num_edges();
    let end = || End::new(program.num_micro_batches as usize);
    let mut walk = Walk {
        chain: &program.chain,
        slots,
        send_buffers,
        senders: (0..num_edges).map(|_| end()).collect(),
        receivers: (0..num_edges).map(|_| end()).collect(),
    };
    for (rank, row) in program.ranks().zip(&program.rows) {
        for (step, &instruction) in row.iter().enumerate() {
            walk.step(step, instruction).map_err(|rule| Violation::new(program, rank, step, rule))?;
        }
    }
    same_order(program, &walk)
}

/// One end of an edge: its transfers and the computes that make or read their messages.
struct End {
    /// Transfers in order, with their positions.
    transfers: Vec<(MicroBatch, usize)>,
    /// `[micro-batch]`
    transferred: Vec<bool>,
    /// The messages in the order of their computes.
    computes: Vec<MicroBatch>,
    /// `[micro-batch]`
    computed: Vec<bool>,
}

impl End {
    fn new(num_micro_batches: usize) -> Self {
        let none = vec![false; num_micro_batches];
        Self { transfers: Vec::new(), transferred: none.clone(), computes: Vec::new(), computed: none }
    }
}

struct Walk<'a> {
    chain: &'a Chain,
    slots: &'a Slots,
    send_buffers: &'a SendBuffers,
    senders: Vec<End>,
    receivers: Vec<End>,
}

impl Walk<'_> {
    fn step(&mut self, step: usize, instruction: Instruction) -> Result<(), Rule> {
        match instruction {
            Instruction::Send { edge, micro_batch } => self.send(step, edge, micro_batch),
            Instruction::Receive { edge, micro_batch } => self.receive(step, edge, micro_batch),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. } => {
                self.slot_is_free(instruction)?;
                self.consume(instruction)?;
                self.produce(instruction)
            }
            _ => Ok(()),
        }
    }

    fn send(&mut self, step: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Rule> {
        let sender = &mut self.senders[edge.index()];
        if !sender.computed[micro_batch.index()] {
            let instruction = Instruction::Send { edge, micro_batch };
            let unit = self.chain.producer(edge);
            let needed = match edge {
                Edge::Up(_) => Instruction::Forward { unit, micro_batch },
                Edge::Down(_) => Instruction::Backward { unit, micro_batch },
            };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        sender.transferred[micro_batch.index()] = true;
        sender.transfers.push((micro_batch, step));
        Ok(())
    }

    fn receive(&mut self, step: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Rule> {
        let receiver = &mut self.receivers[edge.index()];
        if let Some(before) = receiver.transfers.len().checked_sub(RECEIVE_BUFFERS) {
            let (held, _) = receiver.transfers[before];
            if !receiver.computed[held.index()] {
                let unit = self.chain.consumer(edge);
                let freed_by = match edge {
                    Edge::Up(_) => Instruction::Forward { unit, micro_batch: held },
                    Edge::Down(_) => Instruction::Backward { unit, micro_batch: held },
                };
                let instruction = Instruction::Receive { edge, micro_batch };
                return Err(Rule::BufferTaken { instruction, freed_by });
            }
        }
        receiver.transferred[micro_batch.index()] = true;
        receiver.transfers.push((micro_batch, step));
        Ok(())
    }

    fn consume(&mut self, instruction: Instruction) -> Result<(), Rule> {
        let Some((edge, micro_batch)) = consumed_message(self.chain, instruction) else { return Ok(()) };
        let receiver = &mut self.receivers[edge.index()];
        if !receiver.transferred[micro_batch.index()] {
            let needed = Instruction::Receive { edge, micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        receiver.computed[micro_batch.index()] = true;
        Ok(())
    }

    fn produce(&mut self, instruction: Instruction) -> Result<(), Rule> {
        let Some((edge, micro_batch)) = produced_message(self.chain, instruction) else { return Ok(()) };
        let sender = &mut self.senders[edge.index()];
        if let Edge::Down(_) = edge
            && let Some(before) = sender.computes.len().checked_sub(self.send_buffers.num_buffers(edge))
            && !sender.transferred[sender.computes[before].index()]
        {
            let freed_by = Instruction::Send { edge, micro_batch: sender.computes[before] };
            return Err(Rule::BufferTaken { instruction, freed_by });
        }
        sender.computed[micro_batch.index()] = true;
        sender.computes.push(micro_batch);
        Ok(())
    }

    /// An activation is sent out of its slot, so the send is issued before the slot is filled again.
    fn slot_is_free(&self, instruction: Instruction) -> Result<(), Rule> {
        let Some((stage, edge, micro_batch)) = filled_send_slot(self.chain, instruction) else {
            return Ok(());
        };
        match self.slots.previous(stage, micro_batch) {
            Some(previous) if !self.senders[edge.index()].transferred[previous.index()] => {
                let freed_by = Instruction::Send { edge, micro_batch: previous };
                Err(Rule::BufferTaken { instruction, freed_by })
            }
            _ => Ok(()),
        }
    }
}

/// The n-th send of every edge is of the micro-batch of its n-th receive.
fn same_order(program: &Program, walk: &Walk<'_>) -> Result<(), Box<Violation>> {
    for edge in program.chain.edges() {
        let sends = &walk.senders[edge.index()].transfers;
        let receives = &walk.receivers[edge.index()].transfers;
        for (&(sent, _), &(received, step)) in sends.iter().zip(receives) {
            if sent != received {
                let rank = program.chain.placement().rank(edge.receiver());
                let rule = Rule::ReceivedOutOfOrder { edge, received, sent };
                return Err(Violation::new(program, rank, step, rule));
            }
        }
    }
    Ok(())
}
