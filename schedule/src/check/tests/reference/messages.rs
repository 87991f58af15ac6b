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

    pub(super) fn send(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let unsent = Some(Outgoing::Unsent(micro_batch));
        let under_way = Some(Outgoing::UnderWay(micro_batch));
        let state = self.edges.entry(edge).or_default();
        let mut buffers: Vec<&mut Option<Outgoing>> = match edge {
            Edge::Down(_) => state.outgoing.iter_mut().collect(),
            Edge::Up(stage) => {
                let free = self.free_slots.get_mut(&stage).unwrap().iter_mut();
                let in_use =
                    self.slots.iter_mut().filter(|((of, _), _)| *of == stage).map(|(_, output)| output);
                free.chain(in_use).collect()
            }
        };
        let Some(buffer) = buffers.iter_mut().find(|buffer| ***buffer == unsent) else {
            return wrong(Wrong::NoOperand);
        };
        **buffer = under_way;
        state.sends.push_back(micro_batch);
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
        let under_way = Some(Outgoing::UnderWay(sent));
        let clear = |buffer: &mut Option<Outgoing>| {
            if *buffer == under_way {
                *buffer = None;
            }
        };
        match edge {
            Edge::Down(_) => state.outgoing.iter_mut().for_each(clear),
            Edge::Up(stage) => {
                self.free_slots.get_mut(&stage).unwrap().iter_mut().for_each(clear);
                self.slots
                    .iter_mut()
                    .filter(|((of, _), _)| *of == stage)
                    .for_each(|(_, output)| clear(output));
            }
        }
        Ok(())
    }
}
