//! Second pass: sends and receives.
//!
//! A send stands right after the compute that makes its message. A receive is issued as soon as its buffer is free:
//! those of an edge's first messages before all else, the others right after the compute that reads the message
//! before last. So a message is sent as soon as it is made, even while the receiver computes. Rejected: issuing a
//! receive when its message would be made if all ranks ran at one pace; the message would wait for a rank that is
//! slower.
//!
//! Messages come in the order in which they are made, which only the sender decides. That all of them find a buffer
//! in time is seen by playing all rows together, one compute each in turn. In an evaluation slots are freed by sends,
//! not by backwards, so there a forward is played only once its slot is sent. So are those of stages in front of all that is trained; but these have
//! as many as this needs (`send_buffers.rs`).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::stuck::{self, Lack, StuckRank};
use super::{LowerError, receives};
use crate::chain::Chain;
use crate::dataflow::{awaited_message, consumed_message, filled_send_slot, produced_message};
use crate::id::{MicroBatch, PipelineRank};
use crate::instruction::{Edge, Instruction};
use crate::program::Purpose;
use crate::protocol::{FORWARD_SLOTS, RECEIVE_BUFFERS};

/// `rows` with sends and receives.
pub(super) fn insert(
    rows: Vec<Vec<Instruction>>,
    chain: &Chain,
    num_micro_batches: u32,
    purpose: Purpose,
) -> Result<Vec<Vec<Instruction>>, LowerError> {
    let mut play = Play::new(chain, num_micro_batches, purpose, rows.len());
    let mut next = vec![0; rows.len()];
    loop {
        let mut progressed = false;
        // A slot is not sent because its receiver does not read, so a rank that lacks a message explains more.
        let (mut lacks_message, mut is_full) = (None, None);
        for (rank, row) in rows.iter().enumerate() {
            let Some(&instruction) = row.get(next[rank]) else { continue };
            let stuck = |edge| (PipelineRank(rank as u32), instruction, edge);
            if let Some((edge, _)) = play.missing_message(instruction) {
                lacks_message.get_or_insert(stuck(edge));
            } else if let Some(edge) = play.full_edge(instruction) {
                is_full.get_or_insert(stuck(edge));
            } else {
                play.play(rank, instruction);
                next[rank] += 1;
                progressed = true;
            }
        }
        match lacks_message.or(is_full) {
            _ if progressed => {}
            Some((rank, instruction, edge)) => {
                let left: Vec<_> = rows.iter().zip(&next).map(|(row, &next)| &row[next..]).collect();
                let cycle = stuck::cycle(&play.stuck(&left), &left);
                return Err(LowerError::Stuck { rank, instruction, edge, cycle });
            }
            None => return Ok(play.with_receives()),
        }
    }
}

/// The messages of one edge while the rows are played.
struct EdgeState {
    /// Sent, but no receive buffer was free yet.
    waiting: VecDeque<MicroBatch>,
    /// The messages that are received, in order.
    arrivals: Vec<MicroBatch>,
    /// `[micro-batch]`: whether it is among the arrivals.
    received: Vec<bool>,
    /// `[micro-batch]`: whether its consumer has been played.
    consumed: Vec<bool>,
}

struct Play<'a> {
    chain: &'a Chain,
    purpose: Purpose,
    edges: Vec<EdgeState>,
    played: Vec<Vec<Instruction>>,
}

impl<'a> Play<'a> {
    fn new(chain: &'a Chain, num_micro_batches: u32, purpose: Purpose, num_rows: usize) -> Self {
        let edge = || EdgeState {
            waiting: VecDeque::new(),
            arrivals: Vec::new(),
            received: vec![false; num_micro_batches as usize],
            consumed: vec![false; num_micro_batches as usize],
        };
        let num_edges = chain.num_edges();
        let edges = (0..num_edges).map(|_| edge()).collect();
        Self { chain, purpose, edges, played: vec![Vec::new(); num_rows] }
    }

    /// The message that this compute waits for and that has not arrived.
    fn missing_message(&self, compute: Instruction) -> Option<(Edge, MicroBatch)> {
        let (edge, micro_batch) = awaited_message(self.chain, compute)?;
        (!self.edges[edge.index()].received[micro_batch.index()]).then_some((edge, micro_batch))
    }

    /// The edge over which the message in the slot that an evaluating forward fills has not been sent.
    fn full_edge(&self, compute: Instruction) -> Option<Edge> {
        let (_, edge, _) = filled_send_slot(self.chain, compute)?;
        let is_full = self.edges[edge.index()].waiting.len() >= FORWARD_SLOTS;
        (self.purpose == Purpose::Evaluation && is_full).then_some(edge)
    }

    /// `[rank]`: what each rank cannot start, and the rank that it waits for, when none can go on with what it has left.
    fn stuck(&self, left: &[&[Instruction]]) -> Vec<Option<(StuckRank, PipelineRank)>> {
        let of_rank = |(rank, left_here): (PipelineRank, &&[Instruction])| {
            let &instruction = left_here.first()?;
            let (edge, made) = match self.missing_message(instruction) {
                Some((edge, micro_batch)) if !self.edges[edge.index()].waiting.contains(&micro_batch) => {
                    (edge, Some(micro_batch))
                }
                Some((edge, _)) => (edge, None),
                None => (self.full_edge(instruction)?, None),
            };
            let (unit, stage, micro_batch, lack) = match made {
                Some(micro_batch) => (self.chain.producer(edge), edge.sender(), micro_batch, Lack::Message),
                None => {
                    let arrivals = &self.edges[edge.index()].arrivals;
                    let holds = arrivals[arrivals.len().checked_sub(RECEIVE_BUFFERS)?];
                    (self.chain.consumer(edge), edge.receiver(), holds, Lack::Buffer)
                }
            };
            let holder = self.chain.placement().rank(stage);
            let input_gradient = Instruction::BackwardInput { unit, micro_batch };
            let is_split = matches!(edge, Edge::Down(_)) && left[holder.index()].contains(&input_gradient);
            let awaited = if is_split { input_gradient } else { edge.compute(unit, micro_batch) };
            Some((StuckRank { rank, instruction, lack, awaited }, holder))
        };
        self.chain.ranks().zip(left).map(of_rank).collect()
    }

    fn play(&mut self, rank: usize, compute: Instruction) {
        self.played[rank].push(compute);
        if let Some((edge, micro_batch)) = produced_message(self.chain, compute) {
            self.played[rank].push(Instruction::Send { edge, micro_batch });
            self.edges[edge.index()].waiting.push_back(micro_batch);
            self.receive(edge);
        }
        if let Some((edge, micro_batch)) = consumed_message(self.chain, compute) {
            self.edges[edge.index()].consumed[micro_batch.index()] = true;
            self.receive(edge);
        }
    }

    /// Receives the waiting messages whose buffers are free, the oldest first: message `n` takes the buffer of
    /// message `n - RECEIVE_BUFFERS`. Where messages are read in another order than they were sent, one read can free
    /// two buffers.
    fn receive(&mut self, edge: Edge) {
        let state = &mut self.edges[edge.index()];
        while let Some(&micro_batch) = state.waiting.front() {
            if let Some(before) = state.arrivals.len().checked_sub(RECEIVE_BUFFERS)
                && !state.consumed[state.arrivals[before].index()]
            {
                return;
            }
            state.waiting.pop_front();
            state.arrivals.push(micro_batch);
            state.received[micro_batch.index()] = true;
        }
    }

    /// The rows as played, with receives.
    fn with_receives(self) -> Vec<Vec<Instruction>> {
        let arrivals: Vec<_> = self.edges.into_iter().map(|edge| edge.arrivals).collect();
        let insert = |(rank, row): (PipelineRank, Vec<Instruction>)| {
            receives::insert(&row, self.chain, rank, &arrivals)
        };
        self.chain.ranks().zip(self.played).map(insert).collect()
    }
}
