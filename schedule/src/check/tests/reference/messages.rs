//! Messages: outgoing and incoming buffers, and the rendezvous between them.

use std::collections::VecDeque;
use std::vec::Vec;

use super::{Outcome, Reference, Stop, Wrong, wrong};
use crate::id::MicroBatch;
use crate::instruction::Edge;

/// An outgoing buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outgoing {
    Unsent(MicroBatch),
    UnderWay(MicroBatch),
}

#[derive(Default)]
pub(super) struct EdgeState {
    pub(super) sends: VecDeque<MicroBatch>,
    pub(super) receives: VecDeque<MicroBatch>,
    num_received: usize,
    pub(super) num_made: usize,
    /// Receive buffers: the micro-batch, and whether it has arrived.
    incoming: [Option<(MicroBatch, bool)>; 2],
    /// Gradient send buffers.
    pub(super) outgoing: Vec<Option<Outgoing>>,
}

impl Reference<'_> {
    /// Whether the message has arrived: blocks while it is under way, fails if it was not sent.
    pub(super) fn incoming(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let incoming = self.edges.entry(edge).or_default().incoming;
        match incoming.iter().flatten().find(|(held, _)| *held == micro_batch) {
            Some((_, true)) => Ok(()),
            Some((_, false)) => Err(Stop::Blocked),
            None => wrong(Wrong::NoOperand),
        }
    }

    pub(super) fn consume(&mut self, edge: Edge, micro_batch: MicroBatch) {
        for buffer in &mut self.edges.entry(edge).or_default().incoming {
            buffer.take_if(|(held, _)| *held == micro_batch);
        }
    }

    /// The buffers out of which an edge sends: of activations, the slots.
    fn outgoing(&mut self, edge: Edge) -> Vec<&mut Option<Outgoing>> {
        match edge {
            Edge::Down(_) => self.edges.entry(edge).or_default().outgoing.iter_mut().collect(),
            Edge::Up(stage) => {
                let free = self.free_slots.get_mut(&stage).unwrap().iter_mut();
                let in_use = self.slots.iter_mut().filter(|((of, _), _)| *of == stage);
                free.chain(in_use.map(|(_, output)| output)).collect()
            }
        }
    }

    pub(super) fn send(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let unsent = Some(Outgoing::Unsent(micro_batch));
        match self.outgoing(edge).into_iter().find(|buffer| **buffer == unsent) {
            Some(buffer) => *buffer = Some(Outgoing::UnderWay(micro_batch)),
            None => return wrong(Wrong::NoOperand),
        }
        self.edges.entry(edge).or_default().sends.push_back(micro_batch);
        self.pass_messages(edge)
    }

    pub(super) fn receive(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let state = self.edges.entry(edge).or_default();
        let buffer = &mut state.incoming[state.num_received % 2];
        if buffer.is_some() {
            return wrong(Wrong::Overwritten);
        }
        *buffer = Some((micro_batch, false));
        state.num_received += 1;
        state.receives.push_back(micro_batch);
        self.pass_messages(edge)
    }

    /// Both ends issued: the message passes and its outgoing buffer is free.
    fn pass_messages(&mut self, edge: Edge) -> Outcome {
        let state = self.edges.get_mut(&edge).unwrap();
        let (Some(&sent), Some(&received)) = (state.sends.front(), state.receives.front()) else {
            return Ok(());
        };
        if sent != received {
            return wrong(Wrong::OtherMessage);
        }
        state.sends.pop_front();
        state.receives.pop_front();
        for buffer in state.incoming.iter_mut().flatten() {
            buffer.1 |= buffer.0 == received;
        }
        for buffer in self.outgoing(edge) {
            buffer.take_if(|of| *of == Outgoing::UnderWay(sent));
        }
        Ok(())
    }
}
