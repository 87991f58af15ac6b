//! A step as it ran, instruction by instruction, on the compute queue of each rank and on its lanes.

use std::collections::BTreeMap;
use std::env;
use std::fs;

use pipezero_config::Run;
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, StepReport};
use pipezero_run::executor::EventKind;
use pipezero_schedule::simulate::Span;
use pipezero_schedule::{CheckedProgram, Instruction, Lane, PipelineRank};
use tests::{Mask, started};

/// Times of the fake GPU are whole so many, and the driver gives them in milliseconds as f32.
const TICK_NS: u64 = 1000;

/// An instruction of a rank as it ran: where the rank's compute queue met it, and of a message when it was under way on its lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ran {
    pub(super) started: u64,
    pub(super) issued: u64,
    pub(super) awaited: u64,
    pub(super) arrived: u64,
    pub(super) ended: u64,
    pub(super) under_way: Option<Span>,
}

/// `[world rank][index]`
pub(super) type Step = Vec<Vec<Ran>>;

/// The second step of a run; the first has joined the lanes.
pub(super) fn step_of(run: Run) -> (Engine, Step) {
    let path = env::var("FAKE_GPU_TIMES").expect("the fake GPU has virtual times");
    let mut engine = started(Engine::recording, run, Mask::None);
    engine.train_batch().expect("a step");
    fs::remove_file(&path).expect("the fake GPU has written times");
    let report = engine.train_batch().expect("a step");
    let step = ran(engine.plan(), &report, &fs::read_to_string(&path).expect("times"));
    (engine, step)
}

fn ran(plan: &Plan, report: &StepReport, times: &str) -> Step {
    let program = plan.training();
    let rows = (0..plan.grid().world_size()).map(|rank| {
        let row = program.row(PipelineRank(plan.grid().pipeline_rank(rank) as u32));
        let mut ran = vec![Ran::default(); row.len()];
        let events = report.events(rank);
        for event in events {
            let of = &mut ran[event.index];
            let field = match event.kind {
                EventKind::Started => &mut of.started,
                EventKind::Issued => &mut of.issued,
                EventKind::Awaited => &mut of.awaited,
                EventKind::Arrived => &mut of.arrived,
                EventKind::Ended => &mut of.ended,
            };
            *field = (event.at_ns - events[0].at_ns + TICK_NS / 2) / TICK_NS * TICK_NS;
        }
        for (ran, instruction) in ran.iter_mut().zip(row) {
            // Until its lane says otherwise: a rank alone gathers from and reduces with nobody.
            let is_message = instruction.lane() != Lane::Compute;
            ran.under_way = is_message.then_some(Span { start: ran.issued, end: ran.issued });
        }
        for (lane, spans) in
            lanes(program, row, plan.grid().data_degree).into_iter().zip(messages(times, rank))
        {
            let Some(lane) = lane else { continue };
            let of_lane: Vec<usize> = (0..row.len()).filter(|&index| row[index].lane() == lane).collect();
            let num_messages = |&index: &usize| num_messages(plan, row[index]);
            let expected: usize = of_lane.iter().map(num_messages).sum();
            assert_eq!(expected, spans.len(), "messages of rank {rank} on {lane:?}");
            let mut spans = spans.into_iter();
            for index in of_lane {
                let of_index: Vec<Span> = spans.by_ref().take(num_messages(&index)).collect();
                let [Some(first), Some(last)] = [of_index.first(), of_index.last()] else { continue };
                ran[index].under_way = Some(Span { start: first.start, end: last.end });
            }
        }
        ran
    });
    rows.collect()
}

/// The messages of an instruction on its lane, one behind the other: a reduction has one for each part of its unit.
fn num_messages(plan: &Plan, instruction: Instruction) -> usize {
    match (instruction.lane(), instruction.unit()) {
        (Lane::Reduce, Some(unit)) => plan.unit(unit).parts.len(),
        _ => 1,
    }
}

/// The lanes that a rank uses in a step, in the order in which the engine makes their streams; none for words and tied weights, which are no lanes of a
/// program.
fn lanes(program: &CheckedProgram, row: &[Instruction], data_degree: usize) -> Vec<Option<Lane>> {
    let mut edges: Vec<Lane> =
        row.iter().map(|of| of.lane()).filter(|lane| matches!(lane, Lane::Edge(_))).collect();
    edges.sort_by_key(|lane| if let Lane::Edge(edge) = lane { edge.index() } else { 0 });
    edges.dedup();
    let mut lanes = vec![None];
    let is_used = |lane: &Lane| data_degree > 1 && row.iter().any(|of| of.lane() == *lane);
    lanes.extend([Lane::Gather, Lane::Reduce].into_iter().filter(is_used).map(Some));
    lanes.extend(row.iter().any(|&of| is_joint_addition(program, of)).then_some(None));
    lanes.extend(edges.into_iter().map(Some));
    lanes
}

/// Whether the other use of a tied weight is another rank's.
pub(super) fn is_joint_addition(program: &CheckedProgram, instruction: Instruction) -> bool {
    let rank = |unit| program.chain().rank(unit);
    matches!(instruction, Instruction::AddTied { embedding, head } if rank(embedding) != rank(head))
}

/// Of each stream of a device that NCCL uses: when its messages were under way. Each begins with a wait for the compute queue.
fn messages(times: &str, device: usize) -> Vec<Vec<Span>> {
    let mut streams: BTreeMap<u64, (bool, Vec<Option<Span>>)> = BTreeMap::new();
    for line in times.lines() {
        let fields: Vec<&str> = line.splitn(5, ' ').collect();
        let [of_device, stream, start, end] =
            [0, 1, 2, 3].map(|field| fields[field].parse::<u64>().expect("a number"));
        if of_device != device as u64 {
            continue;
        }
        let (is_of_nccl, spans) = streams.entry(stream).or_default();
        let what = fields[4];
        *is_of_nccl |= ["an all-gather", "a reduce-scatter", "an all-reduce", "a transfer"].contains(&what);
        match (what, spans.last_mut()) {
            ("wait", Some(None)) => {}
            ("wait", _) => spans.push(None),
            (_, None) => spans.push(Some(Span { start, end })),
            (_, Some(last)) => last.get_or_insert(Span { start, end }).end = end,
        }
    }
    let of_nccl = streams.into_values().filter(|(is_of_nccl, _)| *is_of_nccl);
    of_nccl.map(|(_, spans)| spans.into_iter().flatten().collect()).collect()
}
