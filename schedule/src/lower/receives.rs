//! Where the receives of a row stand, once the order of each edge's messages is known.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::dataflow::consumed_message;
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::{Edge, Instruction};
use crate::protocol::RECEIVE_BUFFERS;

/// `row` with its rank's receives; `arrivals[edge]` are an edge's messages in order.
///
/// A send stays right behind its compute; a receive whose buffer the compute frees comes after the send.
pub(super) fn insert(
    row: &[Instruction],
    chain: &Chain,
    rank: PipelineRank,
    arrivals: &[Vec<MicroBatch>],
) -> Vec<Instruction> {
    let mut received = Vec::with_capacity(2 * row.len());
    let mut ends: Vec<Option<End<'_>>> = vec![None; arrivals.len()];
    for edge in edges_into(chain, rank) {
        let arrivals = &arrivals[edge.index()];
        let mut end = End { edge, arrivals, num_issued: 0, read: vec![false; arrivals.len()] };
        end.issue(&mut received);
        ends[edge.index()] = Some(end);
    }
    let mut emptied = None;
    for &instruction in row {
        if !matches!(instruction, Instruction::Send { .. })
            && let Some(end) = emptied.take().and_then(|edge: Edge| ends[edge.index()].as_mut())
        {
            end.issue(&mut received);
        }
        received.push(instruction);
        if let Some((edge, micro_batch)) = consumed_message(chain, instruction)
            && let Some(end) = ends[edge.index()].as_mut()
        {
            end.read[micro_batch.index()] = true;
            emptied = Some(edge);
        }
    }
    received
}

/// The edges over which messages come to a rank from others.
fn edges_into(chain: &Chain, rank: PipelineRank) -> impl Iterator<Item = Edge> + '_ {
    let edges = chain.placement().stages(rank).flat_map(|stage| {
        let before = stage.0.checked_sub(1).map(|before| Edge::Up(Stage(before)));
        [before, Some(Edge::Down(stage))]
    });
    edges.flatten().filter(|&edge| chain.is_sent_over(edge))
}

/// The receiving end of an edge, over which every micro-batch comes once.
#[derive(Clone)]
struct End<'a> {
    edge: Edge,
    arrivals: &'a [MicroBatch],
    num_issued: usize,
    /// `[micro-batch]`: whether the message has been read.
    read: Vec<bool>,
}

impl End<'_> {
    /// Issues the receives whose buffers are free: message `n` takes the buffer of message `n - RECEIVE_BUFFERS`.
    fn issue(&mut self, row: &mut Vec<Instruction>) {
        while let Some(&micro_batch) = self.arrivals.get(self.num_issued) {
            let before = self.num_issued.checked_sub(RECEIVE_BUFFERS);
            if before.is_some_and(|before| !self.read[self.arrivals[before].index()]) {
                return;
            }
            row.push(Instruction::Receive { edge: self.edge, micro_batch });
            self.num_issued += 1;
        }
    }
}
