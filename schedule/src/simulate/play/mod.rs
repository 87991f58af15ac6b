//! Playing a program: every rank's row from its start until it waits, in turn, until all have ended.
//!
//! The time of an instruction follows from the ends of what it waits for alone, so the order in which ranks run does
//! not matter and no queue of events is needed. A checked program never deadlocks.

mod edges;

use alloc::vec;
use alloc::vec::Vec;

use self::edges::Edges;
use super::costs::{Costs, Links, MessageCost};
use super::lanes::{Lanes, RankLane, UnderWay};
use super::synchronizations::Synchronizations;
use super::timeline::{Span, Timeline, is_synchronization};
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Edge, Instruction, Lane};

/// A time that is not known yet.
const UNKNOWN: u64 = u64::MAX;

const NOT_YET: Span = Span { start: UNKNOWN, end: UNKNOWN };

pub(super) fn play(program: &CheckedProgram, costs: &Costs) -> Timeline {
    Play::new(program, costs).played()
}

/// Where a rank is in its row.
#[derive(Clone, Default)]
struct Cursor {
    next: usize,
    /// The instruction whose end it waits for.
    waits_for: Option<usize>,
    /// The norm or tied addition that it has joined and others have not.
    joined: Option<usize>,
    /// When its row can go on.
    free: u64,
    /// When its links for gathers and reductions are free.
    gather_free: u64,
    reduce_free: u64,
    /// When its last gather or reduction ends.
    collective_end: u64,
}

impl Cursor {
    /// Waits for a message of the rank that ends then; `false` if that is not known yet.
    fn arrive(&mut self, index: usize, end: u64) -> bool {
        if end == UNKNOWN {
            self.waits_for = Some(index);
            return false;
        }
        self.free = self.free.max(end);
        true
    }
}

struct Play<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    cursors: Vec<Cursor>,
    /// Messages that are not completed yet, where that matters.
    lanes: Option<Lanes>,
    /// `[rank][index]`
    spans: Vec<Vec<Span>>,
    /// `[rank][index]`: what messages took of the rank's own time at an instruction; empty if they take none.
    held: Vec<Vec<u64>>,
    edges: Edges,
    synchronizations: Synchronizations,
}

impl<'a> Play<'a> {
    fn new(program: &'a CheckedProgram, costs: &'a Costs) -> Self {
        let rows = &program.program().rows;
        let held = |row: &Vec<Instruction>| vec![0; row.len()];
        Self {
            program,
            costs,
            cursors: vec![Cursor::default(); rows.len()],
            lanes: costs.land_in_turn(program).then(|| Lanes::new(program)),
            spans: rows.iter().map(|row| vec![NOT_YET; row.len()]).collect(),
            held: if costs.hold_ranks() { rows.iter().map(held).collect() } else { Vec::new() },
            edges: Edges::new(program),
            synchronizations: Synchronizations::new(program, 1),
        }
    }

    fn played(mut self) -> Timeline {
        let mut to_run: Vec<usize> = (0..self.program.num_ranks()).rev().collect();
        while let Some(rank) = to_run.pop() {
            self.run(rank, &mut to_run);
        }
        let ends = self.ends();
        Timeline { spans: self.spans, ends, held: self.held }
    }

    /// Runs a rank until it waits for another; ranks that waited for it are added to `to_run`.
    fn run(&mut self, rank: usize, to_run: &mut Vec<usize>) {
        let program = self.program;
        let row = program.row(PipelineRank(rank as u32));
        while let Some(&instruction) = row.get(self.cursors[rank].next) {
            let index = self.cursors[rank].next;
            if !self.is_ready(rank, index) {
                return;
            }
            match instruction.lane() {
                Lane::Edge(edge) => self.join_transfer(rank, index, (edge, instruction), to_run),
                Lane::Gather | Lane::Reduce => self.collective(rank, index, instruction),
                Lane::Compute if is_synchronization(instruction) => {
                    self.join_synchronization(rank, index, to_run)
                }
                Lane::Compute => {
                    let free = &mut self.cursors[rank].free;
                    let end = *free + self.costs.compute(instruction);
                    self.spans[rank][index] = Span { start: *free, end };
                    *free = end;
                }
            }
            self.cursors[rank].next += 1;
        }
        self.finish(rank);
    }

    /// Messages that nothing waited for are completed at the end, lane after lane.
    fn finish(&mut self, rank: usize) {
        let last = self.spans[rank].len() - 1;
        for number in 0.. {
            let Some(lane) = self.lanes.as_ref().and_then(|lanes| lanes.used(rank, number)) else { return };
            if self.cursors[rank].joined.is_some() || !self.land(rank, lane, usize::MAX, last) {
                return;
            }
        }
    }

    /// When each rank has ended its row and completed the messages that were still under way.
    fn ends(&self) -> Vec<u64> {
        let of_rows = self.cursors.iter().map(|cursor| cursor.free.max(cursor.collective_end));
        let mut ends: Vec<u64> = of_rows.collect();
        for (rank, end) in self.edges.ends() {
            ends[rank] = ends[rank].max(end);
        }
        ends
    }

    /// Whether all is known that the instruction waits for; the rank is then free when it may start. If not, it waits for
    /// another rank.
    fn is_ready(&mut self, rank: usize, index: usize) -> bool {
        if self.cursors[rank].joined.is_some() {
            return false;
        }
        let program = self.program;
        let waits = program.waits(PipelineRank(rank as u32).at(index));
        if self.lanes.is_none() {
            // Computes too: they were done before the row went on.
            let (cursor, spans) = (&mut self.cursors[rank], &self.spans[rank]);
            return waits.iter().all(|&wait| cursor.arrive(wait, spans[wait].end));
        }
        let row = program.row(PipelineRank(rank as u32));
        waits.iter().all(|&wait| match self.lanes.as_ref().and_then(|lanes| lanes.lane(rank, row[wait])) {
            Some(lane) => self.land(rank, lane, wait, index),
            None => true,
        })
    }

    /// Completes the message that was issued at `until` and those of its lane before it; `false` if the end
    /// of one is not known yet.
    fn land(&mut self, rank: usize, lane: RankLane, until: usize, at: usize) -> bool {
        let Some(lanes) = &mut self.lanes else { return true };
        let (cursor, spans) = (&mut self.cursors[rank], &self.spans[rank]);
        while let Some(UnderWay { index, landing }) = lanes.first(lane).filter(|first| first.index <= until) {
            if !cursor.arrive(index, spans[index].end) {
                return false;
            }
            cursor.free += landing;
            if let Some(held) = self.held.get_mut(rank) {
                held[at] += landing;
            }
            lanes.land(lane);
        }
        true
    }

    /// Issues a message; returns the time from which it can be sent.
    fn issue(&mut self, rank: usize, index: usize, instruction: Instruction, cost: MessageCost) -> u64 {
        if let Some(lanes) = &mut self.lanes {
            lanes.issue(rank, instruction, UnderWay { index, landing: cost.landing });
        }
        if let Some(held) = self.held.get_mut(rank) {
            held[index] += cost.issue;
        }
        let free = &mut self.cursors[rank].free;
        *free += cost.issue;
        *free
    }

    fn collective(&mut self, rank: usize, index: usize, instruction: Instruction) {
        let cost = self.costs.message(instruction);
        let issued = self.issue(rank, index, instruction, cost);
        let cursor = &mut self.cursors[rank];
        let has_own_link = self.costs.links == Links::Own && instruction.lane() == Lane::Reduce;
        let free = if has_own_link { &mut cursor.reduce_free } else { &mut cursor.gather_free };
        let start = issued.max(*free);
        *free = start + cost.occupied;
        let end = *free + cost.latency;
        cursor.collective_end = cursor.collective_end.max(end);
        self.spans[rank][index] = Span { start, end };
    }

    /// A transfer starts when both of its ends are issued.
    fn join_transfer(
        &mut self,
        rank: usize,
        index: usize,
        (edge, instruction): (Edge, Instruction),
        to_run: &mut Vec<usize>,
    ) {
        let cost = self.costs.edges[edge.index()];
        let issued = self.issue(rank, index, instruction, cost);
        let Some(met) = self.edges.join(edge, rank, index, issued, cost) else { return };
        self.spans[rank][index] = met.own;
        self.spans[met.rank][met.index] = met.span;
        if self.cursors[met.rank].waits_for.take_if(|of| *of == met.index).is_some() {
            to_run.push(met.rank);
        }
    }

    /// A norm or tied addition holds the rows of all its members until the last has joined; they end together.
    fn join_synchronization(&mut self, rank: usize, index: usize, to_run: &mut Vec<usize>) {
        let pipeline_rank = PipelineRank(rank as u32);
        let instruction = self.program.row(pipeline_rank)[index];
        let (own_part, together) = match instruction {
            Instruction::GradientNorm => {
                (self.costs.own_norm(self.program, pipeline_rank), self.costs.gradient_norm)
            }
            _ => (0, self.costs.add_tied),
        };
        let cursor = &mut self.cursors[rank];
        self.spans[rank][index].start = cursor.free;
        cursor.free += own_part;
        cursor.joined = Some(index);
        let synchronization = self.synchronizations.of(0, instruction);
        if !self.synchronizations.join(synchronization) {
            return;
        }
        let members = self.synchronizations.members(synchronization);
        let joined = members.iter().map(|&rank| self.cursors[rank].free);
        let end = joined.max().unwrap_or(0) + together;
        for &rank in members {
            let cursor = &mut self.cursors[rank];
            cursor.free = end;
            let index = cursor.joined.take().expect("all members have joined");
            self.spans[rank][index].end = end;
            to_run.push(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::costs::UnitCosts;
    use crate::testing::all_programs;

    /// Where messages arrive in turn and cost their ranks nothing, the order of completion is irrelevant.
    #[test]
    fn landing_by_lanes_changes_nothing_where_it_is_left_out() {
        let mut num_programs = 0;
        for program in all_programs(3, 4, 2) {
            let program = CheckedProgram::new(program).unwrap();
            let unit = UnitCosts {
                gather: MessageCost::of_link(4, 9),
                reduce: MessageCost::of_link(7, 2),
                reduce_last: MessageCost::of_link(8, 2),
                gather_after_step: MessageCost::of_link(1, 0),
                ..UnitCosts::of_compute(5, 3, 4)
            };
            let costs = Costs::uniform(&program, unit, MessageCost::of_link(2, 3));
            assert!(!costs.land_in_turn(&program));
            let plain = play(&program, &costs);
            let mut in_turn = Play::new(&program, &costs);
            in_turn.lanes = Some(Lanes::new(&program));
            assert_eq!(in_turn.played(), plain);
            num_programs += 1;
        }
        assert!(num_programs > 1000, "{num_programs}");
    }

    /// A slow reduction ahead of a quick one: waiting for the second, as the norm does, includes the first.
    #[test]
    fn what_arrives_out_of_turn_lands_in_turn() {
        let mut num_unlike = 0;
        for program in all_programs(1, 2, 2) {
            let program = CheckedProgram::new(program).unwrap();
            let mut costs = Costs::uniform(&program, UnitCosts::of_compute(1, 1, 1), MessageCost::default());
            for (unit, latency) in costs.units.iter_mut().zip([0, 50]) {
                unit.reduce = MessageCost::of_link(1, latency);
                unit.reduce_last = unit.reduce;
            }
            assert_eq!(costs.land_in_turn(&program), costs.units.len() > 1);
            let in_turn = play(&program, &costs);
            let mut plain = Play::new(&program, &costs);
            plain.lanes = None;
            num_unlike += u32::from(plain.played() != in_turn);
        }
        assert!(num_unlike > 0);
    }
}
