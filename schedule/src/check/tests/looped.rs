//! Schedules with several stages on each rank: accepted in every small size, and held to their closed forms.

use std::vec;
use std::vec::Vec;

use super::{machine, reference};
use crate::check::CheckedProgram;
use crate::closed_form::{interleaved_in_flight, longest_group};
use crate::generate::{bfs, forward_only_on, interleaved, zb_h1, zb_h2, zb_v};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::{Edge, InstructionKind};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::protocol::{EVALUATION_SLOTS, GRADIENT_SEND_BUFFERS};
use crate::testing::{Random, Sample, all_options, in_full, looped_orders, units};

fn checked(order: &ComputeOrder, per_stage: u32, tied: bool, options: &LowerOptions) -> CheckedProgram {
    let num_stages = order.placement.num_stages() as u32;
    let program = lower(order, &units(num_stages, per_stage, tied), options)
        .unwrap_or_else(|error| panic!("{error}\n{}", order.to_csv()));
    CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}\n{}", order.to_csv()))
}

/// Every order of p <= 4, m <= 8, 2 <= v <= 3 and every group size, under every row of options, with 1 and 2 units.
#[test]
fn every_small_size_is_accepted_under_all_options() {
    let mut sample = Sample::one_in(4, "program with several stages per rank, checked");
    for (p, m) in (1..=4).flat_map(|p| (1..=8).map(move |m| (p, m))) {
        for (v, order) in
            (2..=3).flat_map(|v| looped_orders(p, v, m).into_iter().map(move |order| (v, order)))
        {
            for options in all_options() {
                for (per_stage, tied) in [(1, false), (1, true), (2, false), (2, true)] {
                    if !sample.takes_next() {
                        continue;
                    }
                    let program = checked(&order, per_stage, tied, &options);
                    let is_small = p * m * v <= 12;
                    // The reference takes longer than the checker.
                    if is_small || in_full() || sample.num_cases().is_multiple_of(5) {
                        assert_eq!(reference::play(program.program()), Ok(()), "{}", order.to_csv());
                    }
                    if is_small {
                        machine::run(&program, sample.num_cases() as u64)
                            .unwrap_or_else(|hazard| panic!("{hazard}"));
                    }
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
            for options in all_options() {
                for (per_stage, tied) in [(1, false), (2, false), (2, true)] {
                    let program = checked(&order, per_stage, tied, &options);
                    num_programs += 1;
                    if num_programs.is_multiple_of(3) {
                        assert_eq!(reference::play(program.program()), Ok(()), "{}", order.to_csv());
                    }
                    if p * m <= 12 {
                        machine::run(&program, u64::from(num_programs))
                            .unwrap_or_else(|hazard| panic!("{hazard}"));
                    }
                }
            }
        }
    }
    assert!(num_programs > 4_000, "{num_programs}");
}

#[test]
fn in_flight_and_send_buffers_equal_the_closed_forms() {
    for (p, m) in (1..=4).flat_map(|p| (1..=8).map(move |m| (p, m))) {
        for v in 2..=3 {
            let ranks = || (0..p).map(PipelineRank);
            let program = checked(&bfs(p, v, m).unwrap(), 1, false, &LowerOptions::ZERO_1);
            for rank in ranks() {
                let high_water = program.high_water(rank);
                assert_eq!(high_water.activations as u32, v * m);
                assert!(high_water.in_flight.iter().all(|&(_, in_flight)| in_flight as u32 == m));
            }
            for stage in (0..p * v - 1).map(Stage).filter(|_| p > 1) {
                // The last rank is through with a stage `m` backwards after it begins, the first message for its next
                // stage comes after `p`.
                let turns = (stage.0 + 1).is_multiple_of(p);
                let waiting = if turns { m.saturating_sub(p) as usize } else { 0 };
                let num_buffers = program.num_gradient_send_buffers(Edge::Down(stage));
                assert_eq!(num_buffers, waiting.max(GRADIENT_SEND_BUFFERS), "{p} {v} {m} {stage}");
            }
            for group_size in p..=m.max(p) {
                let order = interleaved(p, v, m, group_size).unwrap();
                let program = checked(&order, 2, false, &LowerOptions::ZERO_1);
                for rank in ranks() {
                    let expected = interleaved_in_flight(p, v, m, group_size, rank);
                    assert_eq!(program.high_water(rank).activations as u64, expected);
                    for stage in program.placement().stages(rank) {
                        assert_eq!(program.num_slots(stage), order.in_flight(stage));
                    }
                }
                for stage in (0..p * v - 1).map(Stage) {
                    let num_buffers = program.num_gradient_send_buffers(Edge::Down(stage));
                    let most = longest_group(p, m, group_size) as usize;
                    assert!(
                        num_buffers <= most.max(GRADIENT_SEND_BUFFERS),
                        "{p} {v} {m} {group_size} {stage}"
                    );
                }
            }
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
    for (p, m) in (1..=4).flat_map(|p| (1..=9).map(move |m| (p, m))) {
        for v in 1..=3 {
            let order = forward_only_on(&Placement::looped(p, v).unwrap(), m).unwrap();
            let program = checked(&order, 2, false, &LowerOptions::ZERO_0);
            for stage in (0..p * v).map(Stage) {
                let sends = program.chain().crosses_ranks(Edge::Up(stage));
                // On one rank the next stage takes its own slot before it has read this one's.
                let expected = if sends { EVALUATION_SLOTS.min(m as usize) } else { 1 };
                assert_eq!(program.num_slots(stage), expected, "{p} {v} {m} {stage}");
            }
        }
    }
}

/// Whatever runs next of what can run: an order on a random placement, its stages ascending as everywhere.
fn random_order(random: &mut Random) -> ComputeOrder {
    let num_ranks = 1 + random.below(3);
    let num_stages = num_ranks + random.below(4);
    let num_micro_batches = 1 + random.below(4) as u32;
    // One stage for each rank, the others anywhere, shuffled.
    let mut ranks: Vec<_> = (0..num_stages)
        .map(|stage| PipelineRank(if stage < num_ranks { stage } else { random.below(num_ranks) } as u32))
        .collect();
    for at in (1..num_stages).rev() {
        ranks.swap(at, random.below(at + 1));
    }
    let placement = Placement::new(ranks).unwrap();
    let is_split: Vec<_> = (0..num_stages).map(|_| random.below(3) == 0).collect();
    // `[stage]`: how many of `F`, of `B` or `I`, and of `B` or `W` have run.
    let mut ended = vec![[0; 3]; num_stages];
    let mut rows = vec![Vec::new(); num_ranks];
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

#[test]
fn every_order_that_runs_on_any_placement_is_accepted() {
    let mut random = Random(11);
    let mut num_edges_within = 0;
    for seed in 0..3000u32 {
        let order = random_order(&mut random);
        let options = all_options()[random.below(all_options().len())];
        let program =
            checked(&order, 1 + seed % 2, order.placement.num_stages() > 1 && seed % 3 == 0, &options);
        assert_eq!(reference::play(program.program()), Ok(()), "{}", order.to_csv());
        machine::run(&program, u64::from(seed))
            .unwrap_or_else(|hazard| panic!("{hazard}\n{}", order.to_csv()));
        for stage in (0..order.placement.num_stages() as u32).map(Stage) {
            assert_eq!(program.num_slots(stage), order.in_flight(stage));
        }
        let evaluation = forward_only_on(&order.placement, order.num_micro_batches).unwrap();
        let evaluation = checked(&evaluation, 1, false, &options);
        assert_eq!(reference::play(evaluation.program()), Ok(()), "{}", order.to_csv());
        machine::run(&evaluation, u64::from(seed)).unwrap_or_else(|hazard| panic!("{hazard}"));
        let crossing = program.chain().edges().filter(|&edge| program.chain().crosses_ranks(edge)).count();
        num_edges_within += program.chain().num_edges() - crossing;
        let ranks = program.ranks();
        let num_sends: usize = ranks.map(|rank| program.count(rank, InstructionKind::Send)).sum();
        assert_eq!(num_sends, crossing * order.num_micro_batches as usize, "nothing is sent within a rank");
    }
    assert!(num_edges_within > 2000, "{num_edges_within}");
}
