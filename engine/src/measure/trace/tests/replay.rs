//! A perfect machine: goes through a program exactly as a prediction says, and leaves the events of it.

use std::collections::{BTreeMap, VecDeque};

use pipezero_schedule::simulate::{Costs, MessageCost, Timeline, UnitCosts, simulate};
use pipezero_schedule::{Instruction, Lane, PipelineRank};

use crate::measure::trace::Recorded;
use crate::measure::trace::columns::Columns;
use crate::measure::trace::members::Site;
use crate::measure::trace::moments::Form;
use crate::plan::Plan;
use crate::run::executor::{Event, EventKind};

/// The step that a machine with these costs goes through.
pub(super) fn step(plan: &Plan, costs: &Costs) -> Recorded {
    let timeline = simulate(plan.training(), costs).unwrap();
    Recorded::of_columns(
        plan.training(),
        plan.grid(),
        (2, timeline.makespan()),
        &columns(plan, costs, &timeline),
    )
    .unwrap()
}

/// The same as columns, by world rank.
pub(super) fn columns(plan: &Plan, costs: &Costs, timeline: &Timeline) -> Vec<Columns> {
    let grid = plan.grid();
    let ranks = 0..grid.world_size();
    ranks
        .map(|rank| {
            let rank = Site::new(grid, rank, 0);
            let events = events(plan, costs, timeline, rank.pipeline_rank);
            Columns::of_events(plan.training(), rank, &events, 0).unwrap()
        })
        .collect()
}

/// The row of a rank, one instruction after the other, as the executor goes through it.
fn events(plan: &Plan, costs: &Costs, timeline: &Timeline, rank: PipelineRank) -> Vec<Event> {
    let program = plan.training();
    let (row, spans) = (program.row(rank), timeline.row(rank));
    let mut machine =
        Machine { costs, timeline, row, rank, now_ns: 0, events: Vec::new(), lanes: BTreeMap::new() };
    for (index, &instruction) in row.iter().enumerate() {
        for &wait in program.waits(rank.at(index)) {
            machine.take_in(row[wait].lane(), wait);
        }
        machine.note(index, EventKind::Started);
        match Form::of(program, instruction) {
            Form::Compute => machine.now_ns = spans[index].end,
            Form::Meeting => {
                let parts =
                    program.chain().units_on(rank).map(|unit| costs.units[unit.index()].gradient_norm);
                machine.now_ns +=
                    if instruction == Instruction::GradientNorm { parts.sum::<u64>() } else { 0 };
                machine.note(index, EventKind::Awaited);
                machine.now_ns = spans[index].end;
            }
            Form::Message => {
                machine.now_ns += costs.message(instruction).issue;
                machine.note(index, EventKind::Issued);
                machine.lanes.entry(instruction.lane()).or_default().push_back(index);
                continue;
            }
        }
        machine.note(index, EventKind::Ended);
    }
    let lanes: Vec<Lane> = machine.lanes.keys().copied().collect();
    lanes.into_iter().for_each(|lane| machine.take_in(lane, usize::MAX));
    assert_eq!(machine.now_ns, timeline.end(rank));
    machine.events
}

struct Machine<'a> {
    costs: &'a Costs,
    timeline: &'a Timeline,
    row: &'a [Instruction],
    rank: PipelineRank,
    now_ns: u64,
    events: Vec<Event>,
    lanes: BTreeMap<Lane, VecDeque<usize>>,
}

impl Machine<'_> {
    fn note(&mut self, index: usize, kind: EventKind) {
        self.events.push(Event { index, kind, at_ns: self.now_ns });
    }

    fn take_in(&mut self, lane: Lane, until: usize) {
        while let Some(index) =
            self.lanes.get_mut(&lane).and_then(|lane| lane.pop_front_if(|&mut first| first <= until))
        {
            self.note(index, EventKind::Awaited);
            self.now_ns = self.now_ns.max(self.timeline.row(self.rank)[index].end);
            self.note(index, EventKind::Arrived);
            self.now_ns += self.costs.message(self.row[index]).landing;
            self.note(index, EventKind::Ended);
        }
    }
}

/// Costs of a plan's program in which every unit and edge has prices of its own, drawn from a seed; messages take up to
/// `message_ns`, and waits for them are far longer than a look.
pub(super) fn costs(plan: &Plan, seed: u64, message_ns: u64) -> Costs {
    let mut state = seed;
    let mut up_to = |most: u64| {
        // SplitMix64's increments, well mixed.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        if most == 0 { 0 } else { 1 + (mixed >> 20) % most }
    };
    let mut passage = |occupied: u64| MessageCost {
        issue: up_to(message_ns / 50),
        occupied: up_to(occupied),
        latency: up_to(message_ns / 10),
        landing: up_to(message_ns / 50),
    };
    let chain = plan.training().chain();
    let edges = (0..chain.num_edges()).map(|_| passage(message_ns / 4)).collect();
    let passages: Vec<[MessageCost; 3]> =
        (0..chain.num_units()).map(|_| [(); 3].map(|()| passage(message_ns))).collect();
    let units = passages.into_iter().map(|[gather, reduce, gather_after_step]| {
        let (forward, input, weight) = (up_to(4_000_000), up_to(4_000_000), up_to(4_000_000));
        UnitCosts {
            optimizer_step: up_to(100_000),
            gradient_norm: up_to(50_000),
            gather,
            reduce,
            gather_after_step,
            ..UnitCosts::of_compute(1_000_000 + forward, 1_000_000 + input, 1_000_000 + weight)
        }
    });
    Costs { units: units.collect(), edges, gradient_norm: 30_000, ..Costs::default() }
}
