//! A perfect machine: runs a program exactly as a prediction says, and leaves the events of it.

use std::collections::{BTreeMap, VecDeque};

use pipezero_plan::Plan;
use pipezero_plan::testing::plan;
use pipezero_run::executor::{EventKind, RecordedEvent};
use pipezero_schedule::simulate::{Costs, MessageCost, Timeline, UnitCosts, simulate};
use pipezero_schedule::{Instruction, Lane, PipelineRank};

use super::events::times_of_events;
use super::recorded::Recording;
use super::times::{Shape, Times};

/// A run of timed layers whose grid, schedule and ZeRO are those of `changes`, with spaces between them.
pub(crate) fn planned(changes: &str) -> Plan {
    let text = r#"{
        "model": {"family": "timed", "num_layers": 8, "seq_length": 4, "parameters_per_layer": 16,
            "activation_elements": 16, "forward_ms": 1},
        "parallel": {"pipeline": 2, "data": 2, "partition": "uniform"},
        "zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 4,
        "steps": 3
    }"#;
    plan(text, changes)
}

/// Grids, schedules and levels that together have every instruction but those of tied weights.
pub(crate) fn plans() -> Vec<Plan> {
    [
        "parallel.pipeline=1",
        "",
        "parallel.pipeline=4 parallel.schedule=gpipe",
        "parallel.pipeline=4 zero_optimization.prefetch_units=0 zero_optimization.resident_units=1",
        "parallel.schedule=interleaved parallel.virtual_stages=2",
        "parallel.schedule=zb-h1 gradient_accumulation_steps=5",
        "activation_checkpointing.enabled=true zero_optimization.reduce=last",
        "zero_optimization.stage=1 parallel.pipeline=4",
        "zero_optimization.stage=0",
        "zero_optimization.unit_layers=2 zero_optimization.parameters=[\"whole:h[.][0246]\"]",
    ]
    .into_iter()
    .map(planned)
    .collect()
}

/// A recorded step with any times: no rule is held against it.
pub(crate) fn unchecked(plan: &Plan, step_ns: u64, times: Vec<Vec<Times>>) -> Recording<'_> {
    Recording { plan, step: 1, step_ns, times }
}

/// The step that a machine with these costs goes through.
pub(crate) fn step<'a>(plan: &'a Plan, costs: &Costs) -> Recording<'a> {
    let timeline = simulate(plan.training(), costs).unwrap();
    let times = times(plan, costs, &timeline);
    Recording::of_rows(plan, (2, timeline.makespan()), |_, rank| Ok(times[rank].clone())).unwrap()
}

/// The same as times by world rank.
pub(crate) fn times(plan: &Plan, costs: &Costs, timeline: &Timeline) -> Vec<Vec<Times>> {
    let empty = unchecked(plan, 0, Vec::new());
    let row = |rank: usize| {
        let events = events(plan, costs, timeline, empty.pipeline_rank(rank));
        let place = |index| (empty.place(rank, index), empty.shape(empty.place(rank, index)));
        times_of_events(&events, 0, empty.row(rank).len(), place).unwrap()
    };
    empty.ranks().map(row).collect()
}

/// The row of a rank, one instruction after the other, as the executor goes through it.
fn events(plan: &Plan, costs: &Costs, timeline: &Timeline, rank: PipelineRank) -> Vec<RecordedEvent> {
    let program = plan.training();
    let (row, spans) = (program.row(rank), timeline.row(rank));
    let mut machine =
        Machine { costs, timeline, row, rank, now_ns: 0, events: Vec::new(), lanes: BTreeMap::new() };
    for (index, &instruction) in row.iter().enumerate() {
        for &wait in program.waits(rank.at(index)) {
            machine.complete(row[wait].lane(), wait);
        }
        machine.note(index, EventKind::Started);
        match Shape::of(program, instruction) {
            Shape::Compute => {
                assert_eq!(spans[index].start, machine.now_ns, "{instruction}");
                machine.now_ns = spans[index].end;
            }
            Shape::Joint => {
                let parts =
                    program.chain().units_on(rank).map(|unit| costs.units[unit.index()].gradient_norm);
                machine.now_ns +=
                    if instruction == Instruction::GradientNorm { parts.sum::<u64>() } else { 0 };
                machine.note(index, EventKind::Awaited);
                machine.now_ns = spans[index].end;
            }
            Shape::Message => {
                machine.now_ns += costs.message(instruction).issue;
                machine.note(index, EventKind::Issued);
                machine.lanes.entry(instruction.lane()).or_default().push_back(index);
                continue;
            }
        }
        machine.note(index, EventKind::Ended);
    }
    let lanes: Vec<Lane> = machine.lanes.keys().copied().collect();
    lanes.into_iter().for_each(|lane| machine.complete(lane, usize::MAX));
    assert_eq!(machine.now_ns, timeline.end(rank));
    machine.events
}

struct Machine<'a> {
    costs: &'a Costs,
    timeline: &'a Timeline,
    row: &'a [Instruction],
    rank: PipelineRank,
    now_ns: u64,
    events: Vec<RecordedEvent>,
    lanes: BTreeMap<Lane, VecDeque<usize>>,
}

impl Machine<'_> {
    fn note(&mut self, index: usize, kind: EventKind) {
        self.events.push(RecordedEvent { index, kind, at_ns: self.now_ns });
    }

    fn complete(&mut self, lane: Lane, until: usize) {
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
pub(crate) fn costs(plan: &Plan, seed: u64, message_ns: u64) -> Costs {
    let mut state = seed;
    let mut up_to = |most: u64| {
        // SplitMix64's increments, well mixed.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        if most == 0 { 0 } else { 1 + (mixed >> 20) % most }
    };
    let mut message_cost = |occupied: u64| MessageCost {
        issue: up_to(message_ns / 50),
        occupied: up_to(occupied),
        latency: up_to(message_ns / 10),
        landing: up_to(message_ns / 50),
    };
    let chain = plan.training().chain();
    let edges = (0..chain.num_edges()).map(|_| message_cost(message_ns / 4)).collect();
    let messages: Vec<[MessageCost; 3]> =
        (0..chain.num_units()).map(|_| [(); 3].map(|()| message_cost(message_ns))).collect();
    let units = messages.into_iter().map(|[gather, reduce, gather_after_step]| {
        let (forward, input, weight) = (up_to(4_000_000), up_to(4_000_000), up_to(4_000_000));
        UnitCosts {
            optimizer_step: up_to(100_000),
            gradient_norm: up_to(50_000),
            gather,
            reduce,
            reduce_last: reduce,
            gather_after_step,
            ..UnitCosts::of_compute(1_000_000 + forward, 1_000_000 + input, 1_000_000 + weight)
        }
    });
    Costs { units: units.collect(), edges, gradient_norm: 30_000, ..Costs::default() }
}
