//! The messages over each stage edge: which end waits for the other, and until when the link is occupied.
//!
//! Messages pass an edge in one order, so the first that waits at it is the next one's other end: nothing is looked up.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::instruction::Edge;
use crate::simulate::costs::MessageCost;
use crate::simulate::timeline::Span;

/// An edge between two ranks.
struct State {
    sender: usize,
    receiver: usize,
    /// Ends that were issued before the other, all of the same rank: index, and when they were issued.
    waiting: VecDeque<(usize, u64)>,
    waiting_rank: usize,
    /// When the last message was sent, and when it arrived.
    sent: u64,
    arrived: u64,
}

/// All edges of a program.
pub(super) struct Edges {
    /// `[edge]`
    edges: Vec<State>,
}

/// A message whose ends are both issued.
pub(super) struct Joined {
    /// The end that was issued first.
    pub(super) rank: usize,
    pub(super) index: usize,
    pub(super) span: Span,
    /// The span of the end that was issued last.
    pub(super) own: Span,
}

impl Edges {
    pub(super) fn new(program: &CheckedProgram) -> Self {
        let rank = |stage| program.placement().rank(stage).index();
        let edges = program.chain().edges().map(|edge| State {
            sender: rank(edge.sender()),
            receiver: rank(edge.receiver()),
            waiting: VecDeque::new(),
            waiting_rank: 0,
            sent: 0,
            arrived: 0,
        });
        Self { edges: edges.collect() }
    }

    /// A rank has issued its end of the next message: the message's times, if the other end was issued already.
    pub(super) fn join(
        &mut self,
        edge: Edge,
        rank: usize,
        index: usize,
        issued: u64,
        cost: MessageCost,
    ) -> Option<Joined> {
        let state = &mut self.edges[edge.index()];
        if state.waiting_rank == rank || state.waiting.is_empty() {
            state.waiting_rank = rank;
            state.waiting.push_back((index, issued));
            return None;
        }
        let (other_index, other_issued) = state.waiting.pop_front()?;
        let start = issued.max(other_issued).max(state.sent);
        state.sent = start + cost.occupied;
        state.arrived = state.sent + cost.latency;
        let sent = Span { start, end: state.sent };
        let received = Span { start, end: state.arrived };
        let (own, span) = if rank == state.sender { (sent, received) } else { (received, sent) };
        Some(Joined { rank: state.waiting_rank, index: other_index, span, own })
    }

    /// When the last messages of each rank were sent and received.
    pub(super) fn ends(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.edges.iter().flat_map(|state| [(state.sender, state.sent), (state.receiver, state.arrived)])
    }
}
