//! Playing a program: every rank's row from its start until it waits, in turn, until all have ended.
//!
//! The time of an instruction follows from the ends of what it waits for alone, so the order in which ranks take their
//! turns does not matter and no queue of events is needed. A checked program never gets stuck.

use alloc::vec;
use alloc::vec::Vec;

use super::costs::{Costs, Links};
use super::timeline::{Span, Timeline};
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};

/// A time that is not known yet.
const UNKNOWN: u64 = u64::MAX;

const NOT_YET: Span = Span { start: UNKNOWN, end: UNKNOWN };

pub(super) fn play(program: &CheckedProgram, costs: &Costs) -> Timeline {
    let mut play = Play::new(program, costs);
    let mut to_run: Vec<usize> = (0..program.num_ranks()).rev().collect();
    while let Some(rank) = to_run.pop() {
        play.run(rank, &mut to_run);
    }
    Timeline::new(play.spans)
}

/// Where a rank is in its row.
#[derive(Clone, Default)]
struct Cursor {
    next: usize,
    /// The instruction whose end it waits for.
    waits_for: Option<usize>,
    /// When its compute, gather and reduce lanes are free.
    compute_free: u64,
    gather_free: u64,
    reduce_free: u64,
}

struct Play<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    cursors: Vec<Cursor>,
    /// `[rank][index]`; a transfer whose other end has not come has only a start.
    spans: Vec<Vec<Span>>,
    /// `[edge]`
    edge_free: Vec<u64>,
    /// Who has come to the tied addition and to the norm, as rank and position.
    tied: Vec<(usize, usize)>,
    norm: Vec<(usize, usize)>,
    num_tied: usize,
}

impl<'a> Play<'a> {
    fn new(program: &'a CheckedProgram, costs: &'a Costs) -> Self {
        let rows = &program.program().rows;
        let adds_tied = |row: &&Vec<Instruction>| {
            row.iter().rev().any(|instruction| matches!(instruction, Instruction::AddTied { .. }))
        };
        let num_tied =
            if program.chain().tied().is_some() { rows.iter().filter(adds_tied).count() } else { 0 };
        Self {
            program,
            costs,
            cursors: vec![Cursor::default(); rows.len()],
            spans: rows.iter().map(|row| vec![NOT_YET; row.len()]).collect(),
            edge_free: vec![0; costs.edges.len()],
            tied: Vec::new(),
            norm: Vec::new(),
            num_tied,
        }
    }

    /// Runs a rank until it waits for another; whoever waited for it goes to `to_run`.
    fn run(&mut self, rank: usize, to_run: &mut Vec<usize>) {
        let program = self.program;
        let row = program.row(PipelineRank(rank as u32));
        while let Some(&instruction) = row.get(self.cursors[rank].next) {
            let index = self.cursors[rank].next;
            let Some(ready) = self.ready(rank, index) else { return };
            match instruction {
                Instruction::Send { .. } | Instruction::Receive { .. } => {
                    self.join_transfer(rank, index, ready, to_run);
                }
                Instruction::GradientNorm | Instruction::AddTied { .. } => {
                    self.join_meeting(rank, index, ready, to_run);
                }
                Instruction::Forward { .. }
                | Instruction::Backward { .. }
                | Instruction::BackwardInput { .. }
                | Instruction::BackwardWeight { .. }
                | Instruction::Recompute { .. }
                | Instruction::Reshard { .. }
                | Instruction::OptimizerStep { .. } => {
                    let end = ready + self.costs.compute(instruction);
                    self.spans[rank][index] = Span { start: ready, end };
                    self.cursors[rank].compute_free = end;
                }
                Instruction::Unshard { .. } | Instruction::GatherAfterStep { .. } => {
                    self.collective(rank, index, Lane::Gather, ready);
                }
                Instruction::Reduce { .. }
                | Instruction::ReduceLast { .. }
                | Instruction::AllReduce { .. } => self.collective(rank, index, Lane::Reduce, ready),
            }
            self.cursors[rank].next += 1;
        }
        self.cursors[rank].waits_for = None;
    }

    /// When the instruction may start as far as its rank knows; `None` if that has to wait for another rank.
    fn ready(&mut self, rank: usize, index: usize) -> Option<u64> {
        let spans = &self.spans[rank];
        let cursor = &mut self.cursors[rank];
        // A norm or tied addition holds the row until its other members have come.
        if cursor.compute_free == UNKNOWN {
            return None;
        }
        let mut ready = cursor.compute_free;
        for &wait in self.program.waits(PipelineRank(rank as u32), index) {
            let end = spans[wait].end;
            if end == UNKNOWN {
                cursor.waits_for = Some(wait);
                return None;
            }
            ready = ready.max(end);
        }
        Some(ready)
    }

    fn collective(&mut self, rank: usize, index: usize, lane: Lane, ready: u64) {
        let passage = self.costs.collective(self.program.row(PipelineRank(rank as u32))[index]);
        let cursor = &mut self.cursors[rank];
        let shares = self.costs.links == Links::SharedByCollectives;
        let free = match lane {
            Lane::Reduce if !shares => &mut cursor.reduce_free,
            _ => &mut cursor.gather_free,
        };
        let start = ready.max(*free);
        *free = start + passage.occupied;
        self.spans[rank][index] = Span { start, end: *free + passage.latency };
    }

    /// A transfer starts when both of its ends have come.
    fn join_transfer(&mut self, rank: usize, index: usize, ready: u64, to_run: &mut Vec<usize>) {
        let here = PipelineRank(rank as u32);
        let (peer, peer_index) = self.program.peer(here, index).expect("a checked transfer has two ends");
        let peer_ready = self.spans[peer.index()][peer_index].start;
        self.spans[rank][index].start = ready;
        if peer_ready == UNKNOWN {
            return;
        }
        let (Instruction::Send { edge, .. } | Instruction::Receive { edge, .. }) =
            self.program.row(here)[index]
        else {
            unreachable!("only transfers have another end")
        };
        let passage = self.costs.message(edge);
        let free = &mut self.edge_free[edge.index()];
        let start = ready.max(peer_ready).max(*free);
        *free = start + passage.occupied;
        let sent = Span { start, end: *free };
        let received = Span { start, end: *free + passage.latency };
        let is_send = matches!(self.program.row(here)[index], Instruction::Send { .. });
        let (own, other) = if is_send { (sent, received) } else { (received, sent) };
        self.spans[rank][index] = own;
        self.spans[peer.index()][peer_index] = other;
        self.wake(peer.index(), peer_index, to_run);
    }

    /// A norm or tied addition holds the rows of all its members until the last has come; they end together.
    fn join_meeting(&mut self, rank: usize, index: usize, ready: u64, to_run: &mut Vec<usize>) {
        self.spans[rank][index].start = ready;
        self.cursors[rank].compute_free = UNKNOWN;
        let is_norm = self.program.row(PipelineRank(rank as u32))[index] == Instruction::GradientNorm;
        let (members, num_members, cost) = if is_norm {
            (&mut self.norm, self.cursors.len(), self.costs.gradient_norm)
        } else {
            (&mut self.tied, self.num_tied, self.costs.add_tied)
        };
        members.push((rank, index));
        if members.len() < num_members {
            return;
        }
        let starts = members.iter().map(|&(rank, index)| self.spans[rank][index].start);
        let end = starts.max().unwrap_or(0) + cost;
        for (rank, index) in core::mem::take(members) {
            self.spans[rank][index].end = end;
            self.cursors[rank].compute_free = end;
            to_run.push(rank);
        }
    }

    fn wake(&mut self, rank: usize, index: usize, to_run: &mut Vec<usize>) {
        if self.cursors[rank].waits_for == Some(index) {
            self.cursors[rank].waits_for = None;
            to_run.push(rank);
        }
    }
}
