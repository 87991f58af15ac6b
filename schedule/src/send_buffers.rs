//! Send buffers: how many messages each edge keeps until they are sent.
//!
//! **Gradients** are sent out of buffers of their own. Two are enough where each rank holds one stage: the receiver takes
//! what the sender makes. A rank of several stages turns to another one while messages for the first wait, up to `m - p` of
//! them in a breadth-first step; with two buffers the sender would stall, and in a 1F1B order with groups longer than the pipeline the two would deadlock.
//! So an edge has as many buffers as messages wait when all ranks work at one pace: the program is simulated, one
//! compute per rank and turn, with unlimited buffers, and the most messages that wait at once are counted.
//!
//! **Activations** are sent out of their slots, of which a stage with a backward has as many as it needs until then. In front of all that is
//! trained a stage would run ahead without end, so it has two slots, and one more each time that these are full while their receiver is at
//! another of its stages, or no rank could go on.
//!
//! As with all slots, the numbers follow from the program and are not written in it.

use alloc::vec::Vec;

use crate::by_micro_batch::ByMicroBatch;
use crate::dataflow::{consumed_message, does_nothing, filled_send_slot, produced_message};
use crate::id::Stage;
use crate::instruction::{Edge, Instruction};
use crate::order::ComputeKind;
use crate::program::{Program, Purpose};
use crate::protocol::{FORWARD_SLOTS, GRADIENT_SEND_BUFFERS};

/// The buffers out of which stages send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendBuffers {
    /// `[edge]`, of those that carry gradients.
    gradients: Vec<u32>,
    /// `[stage]`, of those that have no backward and send their output.
    slots: Vec<u32>,
}

impl SendBuffers {
    /// The buffers of a program in which every compute and transfer stands once.
    ///
    /// If the program deadlocks, only what runs before that is counted; the check then reports the deadlock.
    pub(crate) fn assign(program: &Program) -> Self {
        let mut play = Play::new(program);
        while play.turn() || play.adds_slot() {}
        // Beside those that wait for a receiver which is at another stage, one is computed.
        let slots = play.slots.iter().map(|&slots| slots + u32::from(slots > FORWARD_SLOTS as u32)).collect();
        Self { gradients: play.most, slots }
    }

    /// Buffers of an edge that carries gradients.
    pub(crate) fn num_buffers(&self, edge: Edge) -> usize {
        self.gradients[edge.index()] as usize
    }

    /// Slots of a stage that has no backward and sends its output.
    pub(crate) fn num_slots(&self, stage: Stage) -> usize {
        self.slots[stage.index()] as usize
    }
}

/// The messages of an edge while the program is played.
#[derive(Clone, Default)]
struct EdgeState {
    num_sent: u32,
    num_received: u32,
}

impl EdgeState {
    /// Messages that have passed: both ends are issued.
    fn num_passed(&self) -> u32 {
        self.num_sent.min(self.num_received)
    }

    /// Messages that wait for their receiver.
    fn num_waiting(&self) -> u32 {
        self.num_sent - self.num_passed()
    }
}

struct Play<'a> {
    program: &'a Program,
    /// Whether any stage may wait for a slot: one without a backward, which only the first stages can be.
    has_slots: bool,
    /// `[edge]`
    edges: Vec<EdgeState>,
    /// `[edge, micro-batch]`: how many messages have passed once this one has; `None` until its receive is issued.
    passed_with: ByMicroBatch<Option<u32>>,
    /// `[edge]`: the most buffers of gradients in use at once.
    most: Vec<u32>,
    /// `[stage]`: the slots that there are.
    slots: Vec<u32>,
    /// `[rank]`: the next instruction.
    next: Vec<usize>,
    /// `[rank]`: whether the next instruction is a compute that can run.
    is_ready: Vec<bool>,
}

impl<'a> Play<'a> {
    fn new(program: &'a Program) -> Self {
        let num_edges = program.chain.num_edges();
        let num_ranks = program.rows.len();
        let chain = &program.chain;
        let has_slots =
            program.purpose == Purpose::Training && !chain.has_backward(chain.last_unit(Stage(0)));
        let mut play = Self {
            program,
            has_slots,
            edges: vec![EdgeState::default(); num_edges],
            passed_with: ByMicroBatch::new(num_edges, program.num_micro_batches, None),
            most: vec![GRADIENT_SEND_BUFFERS as u32; num_edges],
            slots: vec![FORWARD_SLOTS as u32; program.chain.num_stages()],
            next: vec![0; num_ranks],
            is_ready: vec![false; num_ranks],
        };
        (0..num_ranks).for_each(|rank| play.issue_up_to_compute(rank));
        play
    }

    /// A compute on every rank that can run one; `false` if none can. All begin before any ends, so a message is read
    /// a turn after it is made.
    fn turn(&mut self) -> bool {
        for rank in 0..self.next.len() {
            if let Some(stage) = self.full_stage(rank).filter(|&stage| self.receiver_is_elsewhere(stage)) {
                self.slots[stage.index()] += 1;
            }
            self.is_ready[rank] = self.has_input(rank) && self.full_stage(rank).is_none();
        }
        let mut progressed = false;
        for rank in 0..self.next.len() {
            if self.is_ready[rank] {
                let compute = self.program.rows[rank][self.next[rank]];
                if let Some((edge @ Edge::Down(_), _)) = produced_message(&self.program.chain, compute) {
                    let in_use = self.edges[edge.index()].num_waiting() + 1;
                    self.most[edge.index()] = self.most[edge.index()].max(in_use);
                }
                self.next[rank] += 1;
                self.issue_up_to_compute(rank);
                progressed = true;
            }
        }
        progressed
    }

    /// A slot more for a stage that has its input and no slot; `false` if there is none.
    fn adds_slot(&mut self) -> bool {
        let Some(stage) = (0..self.next.len()).find_map(|rank| self.full_stage(rank)) else { return false };
        self.slots[stage.index()] += 1;
        true
    }

    /// What a rank computes next.
    fn next_of(&self, rank: usize) -> Option<Instruction> {
        self.program.rows[rank].get(self.next[rank]).copied()
    }

    /// The stage without a backward that a rank would compute next, if it has its input and all its outputs are still to be sent.
    fn full_stage(&self, rank: usize) -> Option<Stage> {
        if !self.has_slots {
            return None;
        }
        let chain = &self.program.chain;
        let (stage, edge, _) = filled_send_slot(chain, self.next_of(rank)?)?;
        let is_full = self.edges[edge.index()].num_waiting() >= self.slots[stage.index()];
        (is_full && chain.ends_with_send(stage) && self.has_input(rank)).then_some(stage)
    }

    /// Whether the rank that receives a stage's output computes for another stage.
    fn receiver_is_elsewhere(&self, stage: Stage) -> bool {
        let (chain, receiver) = (&self.program.chain, Edge::Up(stage).receiver());
        let rank = chain.placement().rank(receiver).index();
        let computed = self.next_of(rank).and_then(|compute| Some(chain.stage(ComputeKind::of(compute)?.1)));
        computed.is_some_and(|stage| stage != receiver) && self.has_input(rank)
    }

    /// Only computes hold up a row, and of these only such as do something.
    fn issue_up_to_compute(&mut self, rank: usize) {
        let row = &self.program.rows[rank];
        while let Some(&instruction) = row.get(self.next[rank]) {
            match instruction {
                of if does_nothing(&self.program.chain, of) => {}
                of if ComputeKind::of(of).is_some() => return,
                Instruction::Send { edge, .. } => self.edges[edge.index()].num_sent += 1,
                Instruction::Receive { edge, micro_batch } => {
                    self.edges[edge.index()].num_received += 1;
                    self.passed_with[(edge.index(), micro_batch)] =
                        Some(self.edges[edge.index()].num_received);
                }
                _ => {}
            }
            self.next[rank] += 1;
        }
    }

    /// Whether a rank has something left to compute, and what that reads.
    fn has_input(&self, rank: usize) -> bool {
        let Some(compute) = self.next_of(rank) else { return false };
        let Some((edge, micro_batch)) = consumed_message(&self.program.chain, compute) else { return true };
        self.passed_with[(edge.index(), micro_batch)]
            .is_some_and(|passed| passed <= self.edges[edge.index()].num_passed())
    }
}
