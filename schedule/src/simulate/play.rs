//! Playing a program: every rank's row from its start until it waits, in turn, until all have ended.
//!
//! The time of an instruction follows from the ends of what it waits for alone, so the order in which ranks take their
//! turns does not matter and no queue of events is needed. A checked program never gets stuck.

mod lanes;
mod meetings;

use alloc::vec;
use alloc::vec::Vec;

use self::lanes::{Lanes, Slot};
use self::meetings::Meetings;
use super::costs::{Costs, Links, Passage};
use super::timeline::{Span, Timeline};
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Edge, Instruction, Lane};

/// A time that is not known yet.
const UNKNOWN: u64 = u64::MAX;

const NOT_YET: Span = Span { start: UNKNOWN, end: UNKNOWN };

pub(super) fn play(program: &CheckedProgram, costs: &Costs) -> Timeline {
    let mut play = Play::new(program, costs);
    let mut to_run: Vec<usize> = (0..program.num_ranks()).rev().collect();
    while let Some(rank) = to_run.pop() {
        play.run(rank, &mut to_run);
    }
    let ends = play.cursors.iter().map(|cursor| cursor.free).collect();
    Timeline::new(play.spans, ends, play.held)
}

/// Where a rank is in its row.
#[derive(Clone, Default)]
struct Cursor {
    next: usize,
    /// The instruction whose end it waits for.
    waits_for: Option<usize>,
    /// Whether it has come to a norm or tied addition to which others have not come.
    meets: bool,
    /// When it can go on, as far as its row goes.
    free: u64,
    /// When its links for gathers and reductions are free.
    gather_free: u64,
    reduce_free: u64,
}

struct Play<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    cursors: Vec<Cursor>,
    lanes: Lanes,
    /// `[rank][index]`; a transfer whose other end has not come has only a start: when it was issued.
    spans: Vec<Vec<Span>>,
    /// `[rank][index]`: what messages took of the rank's own time at an instruction; empty if they take none.
    held: Vec<Vec<u64>>,
    /// `[edge]`
    edge_free: Vec<u64>,
    meetings: Meetings,
}

impl<'a> Play<'a> {
    fn new(program: &'a CheckedProgram, costs: &'a Costs) -> Self {
        let rows = &program.program().rows;
        let held = |row: &Vec<Instruction>| vec![0; row.len()];
        Self {
            program,
            costs,
            cursors: vec![Cursor::default(); rows.len()],
            lanes: Lanes::new(program),
            spans: rows.iter().map(|row| vec![NOT_YET; row.len()]).collect(),
            held: if costs.hold_ranks() { rows.iter().map(held).collect() } else { Vec::new() },
            edge_free: vec![0; costs.edges.len()],
            meetings: Meetings::new(program),
        }
    }

    /// Runs a rank until it waits for another; whoever waited for it goes to `to_run`.
    fn run(&mut self, rank: usize, to_run: &mut Vec<usize>) {
        let program = self.program;
        let row = program.row(PipelineRank(rank as u32));
        while let Some(&instruction) = row.get(self.cursors[rank].next) {
            let index = self.cursors[rank].next;
            if !self.is_ready(rank, index) {
                return;
            }
            match instruction {
                Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => {
                    self.join_transfer(rank, index, edge, to_run);
                }
                Instruction::GradientNorm | Instruction::AddTied { .. } => {
                    self.join_meeting(rank, index, to_run);
                }
                Instruction::Forward { .. }
                | Instruction::Backward { .. }
                | Instruction::BackwardInput { .. }
                | Instruction::BackwardWeight { .. }
                | Instruction::Recompute { .. }
                | Instruction::Reshard { .. }
                | Instruction::OptimizerStep { .. } => {
                    let free = &mut self.cursors[rank].free;
                    let end = *free + self.costs.compute(instruction);
                    self.spans[rank][index] = Span { start: *free, end };
                    *free = end;
                }
                Instruction::Unshard { .. }
                | Instruction::GatherAfterStep { .. }
                | Instruction::Reduce { .. }
                | Instruction::ReduceLast { .. }
                | Instruction::AllReduce { .. } => self.collective(rank, index, instruction),
            }
            self.cursors[rank].next += 1;
        }
        self.finish(rank);
    }

    /// What nothing waited for is waited for in the end, lane after lane.
    fn finish(&mut self, rank: usize) {
        let last = self.spans[rank].len() - 1;
        for number in 0..self.lanes.num_used(rank) {
            if self.cursors[rank].meets || !self.land(rank, self.lanes.used(rank, number), usize::MAX, last) {
                return;
            }
        }
    }

    /// Whether all is known that the instruction waits for; the rank is then free when it may start. If not, it waits for
    /// another rank.
    fn is_ready(&mut self, rank: usize, index: usize) -> bool {
        let here = PipelineRank(rank as u32);
        let program = self.program;
        !self.cursors[rank].meets
            && program.waits(here, index).iter().all(|&wait| {
                let waited = program.row(here)[wait];
                // A compute was done before the row went on.
                waited.lane() == Lane::Compute || self.land(rank, self.lanes.slot(rank, waited), wait, index)
            })
    }

    /// Waits for the message that was issued at `until`, and those of its lane before it, and takes them in; `false` if
    /// the end of one is not known yet.
    fn land(&mut self, rank: usize, lane: Slot, until: usize, at: usize) -> bool {
        let row = self.program.row(PipelineRank(rank as u32));
        while let Some(index) = self.lanes.first(lane).filter(|&first| first <= until) {
            let cursor = &mut self.cursors[rank];
            let end = self.spans[rank][index].end;
            if end == UNKNOWN {
                cursor.waits_for = Some(index);
                return false;
            }
            let landing = self.costs.passage(row[index]).landing;
            cursor.free = cursor.free.max(end) + landing;
            self.hold(rank, at, landing);
            self.lanes.land(lane);
        }
        true
    }

    /// Notes that messages took of a rank's own time.
    fn hold(&mut self, rank: usize, at: usize, time: u64) {
        if let Some(held) = self.held.get_mut(rank) {
            held[at] += time;
        }
    }

    /// Issues a message: the time at which it sets out.
    fn issue(&mut self, rank: usize, index: usize, passage: Passage) -> u64 {
        self.hold(rank, index, passage.issue);
        let free = &mut self.cursors[rank].free;
        *free += passage.issue;
        *free
    }

    fn collective(&mut self, rank: usize, index: usize, instruction: Instruction) {
        let passage = self.costs.passage(instruction);
        let issued = self.issue(rank, index, passage);
        let cursor = &mut self.cursors[rank];
        let has_own_link = self.costs.links == Links::Own && instruction.lane() == Lane::Reduce;
        let free = if has_own_link { &mut cursor.reduce_free } else { &mut cursor.gather_free };
        let start = issued.max(*free);
        *free = start + passage.occupied;
        self.spans[rank][index] = Span { start, end: *free + passage.latency };
    }

    /// A transfer starts when both of its ends have come.
    fn join_transfer(&mut self, rank: usize, index: usize, edge: Edge, to_run: &mut Vec<usize>) {
        let here = PipelineRank(rank as u32);
        let passage = self.costs.edges[edge.index()];
        let issued = self.issue(rank, index, passage);
        let (peer, peer_index) = self.program.peer(here, index).expect("a checked transfer has two ends");
        let peer_issued = self.spans[peer.index()][peer_index].start;
        self.spans[rank][index].start = issued;
        if peer_issued == UNKNOWN {
            return;
        }
        let free = &mut self.edge_free[edge.index()];
        let start = issued.max(peer_issued).max(*free);
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
    fn join_meeting(&mut self, rank: usize, index: usize, to_run: &mut Vec<usize>) {
        let is_norm = self.program.row(PipelineRank(rank as u32))[index] == Instruction::GradientNorm;
        let (own_part, together) = if is_norm {
            (self.costs.own_norm(self.program, rank), self.costs.gradient_norm)
        } else {
            (0, self.costs.add_tied)
        };
        let cursor = &mut self.cursors[rank];
        self.spans[rank][index].start = cursor.free;
        cursor.free += own_part;
        cursor.meets = true;
        let Some(members) = self.meetings.join(is_norm, rank, index) else { return };
        let joined = members.iter().map(|&(rank, _)| self.cursors[rank].free);
        let end = joined.max().unwrap_or(0) + together;
        for (rank, index) in members {
            self.spans[rank][index].end = end;
            self.cursors[rank].free = end;
            self.cursors[rank].meets = false;
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
