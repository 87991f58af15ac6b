//! Schedules with several stages on each rank: accepted in every small size, and held to their closed forms.

use std::string::ToString;
use std::vec::Vec;

use super::{machine, reference};
use crate::check::CheckedProgram;
use crate::closed_form::longest_group;
use crate::generate::{bfs, forward_only_on, interleaved, zb_h1, zb_h2, zb_v};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::{Edge, InstructionKind};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::protocol::{FORWARD_SLOTS, GRADIENT_SEND_BUFFERS};
use crate::testing::{Random, Sample, all_options, in_full, instruction, looped_orders, order, units};

/// The program of an order, checked; if it trains, it holds in flight what the order says, which `generate/tests.rs`
/// holds to closed forms.
pub(super) fn checked(
    order: &ComputeOrder,
    per_stage: u32,
    tied: bool,
    options: &LowerOptions,
) -> CheckedProgram {
    let num_stages = order.placement.num_stages() as u32;
    let program = lower(order, &units(num_stages, per_stage, tied), options)
        .unwrap_or_else(|error| panic!("{error}\n{}", order.to_csv()));
    let program =
        CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}\n{}", order.to_csv()));
    for rank in program.ranks() {
        let high_water = program.high_water(rank);
        if !order.has_backward() {
            assert_eq!(high_water.gradient_buffers, 0);
            continue;
        }
        assert_eq!(high_water.activations, order.in_flight_on(rank));
        assert_eq!(high_water.activations_until_input, order.in_flight_until_input(rank));
        let in_flight = order.placement.stages(rank).map(|stage| (stage, order.in_flight(stage)));
        assert_eq!(high_water.in_flight, in_flight.collect::<Vec<_>>());
        assert!(high_water.in_flight.iter().all(|&(stage, most)| program.num_slots(stage) == most));
    }
    program
}

/// Asserts that a program plays to its end in the reference, and, if it is small, in the machine too.
pub(super) fn assert_runs(program: &CheckedProgram, plays: bool, seed: Option<u64>) {
    if plays {
        assert_eq!(reference::play(program.program()), Ok(()), "{}", program.program());
    }
    if let Some(seed) = seed {
        machine::run(program, seed).unwrap_or_else(|hazard| panic!("{hazard}\n{}", program.program()));
    }
}

/// Every order of p <= 4, m <= 8, 2 <= v <= 3 and every group size, under every row of options, with 1 and 2 units.
#[test]
fn every_small_size_is_accepted_under_all_options() {
    let mut sample = Sample::one_in(4, "program with several stages per rank, checked");
    for (p, m) in (1..=4).flat_map(|p| (1..=8).map(move |m| (p, m))) {
        for (v, order) in
            (2..=3).flat_map(|v| looped_orders(p, v, m).into_iter().map(move |order| (v, order)))
        {
            for options in all_options(p) {
                for (per_stage, tied) in [(1, false), (1, true), (2, false), (2, true)] {
                    if !sample.takes_next() {
                        continue;
                    }
                    let program = checked(&order, per_stage, tied, &options);
                    let is_small = p * m * v <= 12;
                    // The reference takes longer than the checker.
                    let plays = is_small || in_full() || sample.num_cases().is_multiple_of(5);
                    assert_runs(&program, plays, is_small.then_some(sample.num_cases() as u64));
                }
            }
        }
    }
    assert!(sample.num_cases() > 20_000, "{}", sample.num_cases());
}

/// ZB-H1, ZB-H2 and ZB-V of p <= 4, m <= 8, under every row of options, with 1 and 2 units.
#[test]
fn every_small_split_order_is_accepted_under_all_options() {
    let mut num_programs = 0u32;
    for (p, m) in (1..=4).flat_map(|p| (1..=8).map(move |m| (p, m))) {
        for order in [zb_h1, zb_h2, zb_v].map(|generate| generate(p, m).unwrap()) {
            for options in all_options(p) {
                for (per_stage, tied) in [(1, false), (2, false), (2, true)] {
                    let program = checked(&order, per_stage, tied, &options);
                    num_programs += 1;
                    let seed = (p * m <= 12).then_some(u64::from(num_programs));
                    assert_runs(&program, num_programs.is_multiple_of(3), seed);
                }
            }
        }
    }
    assert!(num_programs > 4_000, "{num_programs}");
}

#[test]
fn send_buffers_equal_the_closed_forms() {
    let sizes = (1..=4).flat_map(|p| (1..=8).flat_map(move |m| (2..=3).map(move |v| (p, m, v))));
    for (p, m, v) in sizes {
        let edges = || (0..p * v - 1).map(|stage| Edge::Down(Stage(stage)));
        let program = checked(&bfs(p, v, m).unwrap(), 1, false, &LowerOptions::ZERO_1);
        for edge in edges().filter(|_| p > 1) {
            // The last rank ends a stage's backwards `m` backwards after it begins them; the first message for its next
            // stage is made after `p`.
            let turns = edge.sender().0.is_multiple_of(p);
            let waiting = if turns { m.saturating_sub(p) as usize } else { 0 };
            let num_buffers = program.num_gradient_send_buffers(edge);
            assert_eq!(num_buffers, waiting.max(GRADIENT_SEND_BUFFERS), "{p} {v} {m} {edge}");
        }
        for group_size in p..=m.max(p) {
            let order = interleaved(p, v, m, group_size).unwrap();
            let program = checked(&order, 2, false, &LowerOptions::ZERO_1);
            let most = (longest_group(p, m, group_size) as usize).max(GRADIENT_SEND_BUFFERS);
            let mut buffers = edges().map(|edge| program.num_gradient_send_buffers(edge));
            assert!(buffers.all(|num_buffers| num_buffers <= most), "{p} {v} {m} {group_size}");
        }
    }
}

/// Two buffers would do for gradients if nothing waited; with groups longer than the pipeline they would deadlock.
#[test]
fn messages_that_wait_for_a_turn_have_a_buffer_each() {
    let program = checked(&interleaved(2, 2, 16, 8).unwrap(), 1, false, &LowerOptions::ZERO_1);
    let buffers = (0..3).map(|stage| program.num_gradient_send_buffers(Edge::Down(Stage(stage))));
    assert_eq!(buffers.collect::<Vec<_>>(), [2, 6, 2]);
}

#[test]
fn an_evaluation_holds_two_slots_where_it_sends_and_one_elsewhere() {
    let sizes = (1..=4).flat_map(|p| (1..=9).flat_map(move |m| (1..=3).map(move |v| (p, m, v))));
    for (p, m, v) in sizes {
        let order = forward_only_on(&Placement::looped(p, v).unwrap(), m).unwrap();
        let program = checked(&order, 2, false, &LowerOptions::ZERO_0);
        for stage in (0..p * v).map(Stage) {
            let sends = program.chain().crosses_ranks(Edge::Up(stage));
            // On one rank the next stage takes its own slot before it has read this one's.
            let expected = if sends { FORWARD_SLOTS.min(m as usize) } else { 1 };
            assert_eq!(program.num_slots(stage), expected, "{p} {v} {m} {stage}");
            let slots = (0..m).map(|of| program.slot(stage, MicroBatch(of)));
            assert!(slots.eq((0..m as usize).map(|of| of % expected)), "slots take turns");
        }
    }
}

/// Whatever runs next of what can run, its stages ascending as everywhere.
pub(super) fn random_order(
    random: &mut Random,
    placement: Placement,
    num_micro_batches: u32,
) -> ComputeOrder {
    let num_stages = placement.num_stages();
    let is_split: Vec<_> = (0..num_stages).map(|_| random.below(3) == 0).collect();
    // `[stage]`: how many of `F`, of `B` or `I`, and of `B` or `W` have run.
    let mut ended = vec![[0; 3]; num_stages];
    let mut rows = vec![Vec::new(); placement.num_ranks()];
    loop {
        let mut ready = Vec::new();
        for stage in 0..num_stages {
            let [forwards, inputs, weights] = ended[stage];
            let arrived = if stage == 0 { num_micro_batches } else { ended[stage - 1][0] };
            let returned = if stage + 1 == num_stages { forwards } else { forwards.min(ended[stage + 1][1]) };
            ready.extend((forwards < arrived).then_some((stage, ComputeKind::Forward)));
            let kind = if is_split[stage] { ComputeKind::BackwardInput } else { ComputeKind::Backward };
            ready.extend((inputs < returned).then_some((stage, kind)));
            ready.extend((weights < inputs).then_some((stage, ComputeKind::BackwardWeight)));
        }
        if ready.is_empty() {
            return ComputeOrder { placement, num_micro_batches, rows };
        }
        let (stage, kind) = ready[random.below(ready.len())];
        let columns: &[usize] = match kind {
            ComputeKind::Forward => &[0],
            ComputeKind::Backward => &[1, 2],
            ComputeKind::BackwardInput => &[1],
            ComputeKind::BackwardWeight => &[2],
        };
        let micro_batch = MicroBatch(ended[stage][columns[0]]);
        columns.iter().for_each(|&column| ended[stage][column] += 1);
        let stage = Stage(stage as u32);
        rows[placement.rank(stage).index()].push(StageAction { kind, stage, micro_batch });
    }
}

/// One stage for each rank, the others anywhere, shuffled.
pub(super) fn random_placement(random: &mut Random) -> Placement {
    let num_ranks = 1 + random.below(3);
    let num_stages = num_ranks + random.below(4);
    let mut ranks: Vec<_> = (0..num_stages)
        .map(|stage| PipelineRank(if stage < num_ranks { stage } else { random.below(num_ranks) } as u32))
        .collect();
    for at in (1..num_stages).rev() {
        ranks.swap(at, random.below(at + 1));
    }
    Placement::new(ranks).unwrap()
}

#[test]
fn every_order_that_runs_on_any_placement_is_accepted() {
    let mut random = Random(11);
    let mut num_edges_within = 0;
    for seed in 0..3000u32 {
        let (placement, num_micro_batches) = (random_placement(&mut random), 1 + random.below(4) as u32);
        let order = random_order(&mut random, placement, num_micro_batches);
        let mut all_options = all_options(order.placement.num_ranks() as u32);
        let options = all_options.swap_remove(random.below(all_options.len()));
        let program =
            checked(&order, 1 + seed % 2, order.placement.num_stages() > 1 && seed % 3 == 0, &options);
        assert_runs(&program, true, Some(seed.into()));
        let evaluation = forward_only_on(&order.placement, order.num_micro_batches).unwrap();
        assert_runs(&checked(&evaluation, 1, false, &options), true, Some(seed.into()));
        let crossing = program.chain().edges().filter(|&edge| program.chain().crosses_ranks(edge)).count();
        num_edges_within += program.chain().num_edges() - crossing;
        let ranks = program.ranks();
        let num_sends: usize = ranks.map(|rank| program.count(rank, InstructionKind::Send)).sum();
        assert_eq!(num_sends, crossing * order.num_micro_batches as usize, "nothing is sent within a rank");
    }
    assert!(num_edges_within > 2000, "{num_edges_within}");
}

#[test]
fn a_stage_may_follow_another_on_its_rank() {
    // A V: the last stage returns to rank 0, and the turn at rank 1 needs no message.
    let folded =
        order(&[0, 1, 1, 0], 2, &["0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1", "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"]);
    for options in all_options(2) {
        let checked = checked(&folded, 2, true, &options);
        let text = checked.program().to_string();
        for seed in 0..5 {
            assert_runs(&checked, true, Some(seed));
        }
        let rows = [0, 1].map(|rank| checked.row(PipelineRank(rank)));
        let add_tied = instruction("ADD_TIED u0 u7");
        assert_eq!(rows[0].iter().filter(|&&of| of == add_tied).count(), 1);
        assert!(!rows[0].contains(&instruction("STEP u7")) && !rows[1].contains(&add_tied));
        assert!(!text.contains("SEND s1>s2"), "{text}");
    }
    let evaluation = order(&[0, 1, 1, 0], 3, &["0F0 0F1 3F0 0F2 3F1 3F2", "1F0 2F0 1F1 2F1 1F2 2F2"]);
    let checked = checked(&evaluation, 1, false, &LowerOptions::ZERO_0);
    let slots: Vec<_> = (0..4).map(|stage| checked.num_slots(Stage(stage))).collect();
    assert_eq!(slots, [2, 1, 2, 1], "stage 1 is read by stage 2 on its rank, stages 0 and 2 send");
    assert_runs(&checked, true, Some(1));
}
