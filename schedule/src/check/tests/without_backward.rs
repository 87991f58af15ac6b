//! Stages in front of all that is trained: no gradients come to them, and they hold little more than in an evaluation, without holding up others.

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::looped::{assert_runs, random_order, random_placement};
use crate::check::CheckedProgram;
use crate::generate::{bfs, interleaved, zb_h1, zb_h2, zb_v};
use crate::id::{PipelineRank, Stage};
use crate::instruction::{Edge, Instruction};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::protocol::FORWARD_SLOTS;
use crate::simulate::{Costs, MessageCost, UnitCosts, simulate};
use crate::testing::{Random, Sample, all_options, all_orders, order, units};

/// The program of an order of which so many units are frozen, from the first on.
fn frozen_in_front(
    order: &ComputeOrder,
    per_stage: u32,
    num_frozen: usize,
    options: &LowerOptions,
) -> CheckedProgram {
    let mut units = units(order.placement.num_stages() as u32, per_stage, false);
    for facts in &mut units[..num_frozen] {
        (facts.is_frozen, facts.backward_reads_weights) = (true, false);
    }
    let program = lower(order, &units, options).unwrap_or_else(|error| panic!("{error}\n{}", order.to_csv()));
    CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}\n{}", order.to_csv()))
}

/// The stages to which gradients are sent, and those that send activations.
fn receivers(program: &CheckedProgram) -> [BTreeSet<Stage>; 2] {
    let mut of = [BTreeSet::new(), BTreeSet::new()];
    for instruction in program.program().rows.iter().flatten() {
        match *instruction {
            Instruction::Send { edge: Edge::Down(stage), .. } => of[0].insert(stage),
            Instruction::Send { edge: Edge::Up(stage), .. } => of[1].insert(stage),
            _ => continue,
        };
    }
    of
}

fn assert_front(program: &CheckedProgram, num_frozen: usize) {
    let [gradients, activations] = receivers(program);
    let chain = program.chain();
    for stage in (0..chain.num_stages() as u32).map(Stage) {
        let is_front = chain.last_unit(stage).index() < num_frozen;
        let crosses = chain.crosses_ranks(Edge::Up(stage));
        assert_eq!(activations.contains(&stage), crosses);
        assert_eq!(gradients.contains(&stage), crosses && !is_front, "{stage:?}\n{}", program.program());
        if is_front && crosses {
            let first = chain.first_unit(stage);
            let row = program.row(chain.placement().rank(stage));
            let in_use = row.iter().scan(0, |in_use, &of| {
                match of {
                    Instruction::Forward { unit, .. } if unit == first => *in_use += 1,
                    Instruction::Backward { unit, .. } | Instruction::BackwardWeight { unit, .. }
                        if unit == first =>
                    {
                        *in_use -= 1;
                    }
                    _ => {}
                }
                Some(*in_use)
            });
            assert_eq!(in_use.max(), Some(1), "each backward follows its forward\n{}", program.program());
        }
    }
}

#[test]
fn every_small_program_is_accepted_with_any_number_of_frozen_units_in_front() {
    let mut sample = Sample::one_in(12, "program with frozen units in front, checked and played");
    for (p, m) in (1..=4).flat_map(|p| (1..=6).map(move |m| (p, m))) {
        let [one_f_one_b, eager, gpipe, _] = all_orders(p, m);
        let mut orders = Vec::from([one_f_one_b, eager, gpipe]);
        let num_linear = orders.len();
        orders.extend([zb_h1(p, m), zb_h2(p, m), zb_v(p, m), bfs(p, 2, m)].map(Result::unwrap));
        orders.extend((p..=m.max(p)).map(|group_size| interleaved(p, 2, m, group_size).unwrap()));
        for (index, order) in orders.iter().enumerate() {
            for per_stage in 1..=2 {
                for num_frozen in 1..=order.placement.num_stages() * per_stage as usize {
                    for options in all_options(p).into_iter().filter(|_| sample.takes_next()) {
                        let program = frozen_in_front(order, per_stage, num_frozen, &options);
                        assert_front(&program, num_frozen);
                        assert_runs(&program, true, Some(u64::from(p * m)));
                        // The last stage sends nothing.
                        let stages = 0..(num_frozen as u32 / per_stage).min(p - 1);
                        for stage in stages.filter(|_| index < num_linear && p > 1) {
                            let slots = program.num_slots(Stage(stage));
                            assert_eq!(slots, FORWARD_SLOTS.min(m as usize), "{}", order.to_csv());
                        }
                    }
                }
            }
        }
    }
    assert!(sample.num_cases() > 30_000, "{}", sample.num_cases());
}

#[test]
fn every_order_that_runs_is_accepted_with_frozen_units_in_front() {
    let mut random = Random(12);
    let mut num_in_front = 0;
    for seed in 0..3000u32 {
        let (placement, num_micro_batches) = (random_placement(&mut random), 1 + random.below(9) as u32);
        let order = random_order(&mut random, placement, num_micro_batches);
        let mut all_options = all_options(order.placement.num_ranks() as u32);
        let options = all_options.swap_remove(random.below(all_options.len()));
        let (num_stages, per_stage) = (order.placement.num_stages(), 1 + seed % 2);
        let num_frozen = random.below(num_stages * per_stage as usize);
        let program = frozen_in_front(&order, per_stage, num_frozen, &options);
        assert_front(&program, num_frozen);
        assert_runs(&program, true, Some(seed.into()));
        num_in_front += num_frozen / per_stage as usize;
    }
    assert!(num_in_front > 3000, "{num_in_front}");
}

/// Rank 1 computes stage 3 between any two micro-batches of stage 1. Stage 3 needs stage 2, which rank 0 computes after all of stage 0. So with two
/// slots for stage 0 the ranks would wait for each other.
#[test]
fn a_stage_has_a_slot_more_where_its_receiver_could_not_go_on_otherwise() {
    let m = 7;
    let of_all = |kind: &str| (0..m).map(|of| format!("{kind}{of} ")).collect::<String>();
    let first = of_all("0F") + &of_all("2F") + &of_all("2B") + &of_all("0B");
    let second = (0..m).map(|of| format!("1F{of} 3F{of} ")).collect::<String>();
    let order = order(&[0, 1, 0, 1], m, &[&first, &(second + &of_all("3B") + &of_all("1B"))]);
    let program = frozen_in_front(&order, 1, 1, &LowerOptions::ZERO_1);
    assert_front(&program, 1);
    assert_runs(&program, true, Some(3));
    // Two messages lie in the receiver's buffers and one is read; beside those that wait one is computed.
    assert_eq!(program.num_slots(Stage(0)), m as usize - 3 + 1);
    assert_eq!(program.placement().rank(Stage(0)), PipelineRank(0));
}

/// When the last compute of an order ends if every rank may run ahead as far as it likes, and what is frozen has no backward: a forward takes
/// 1, a full backward 2.
fn end_without_limits(order: &ComputeOrder, num_frozen: usize) -> u64 {
    let last = order.placement.num_stages() as u32 - 1;
    let mut ends = BTreeMap::new();
    let mut free = Vec::from_iter(order.rows.iter().map(|_| 0));
    let mut next = Vec::from_iter(order.rows.iter().map(|row| row.iter().peekable()));
    let mut is_done = false;
    while !core::mem::replace(&mut is_done, true) {
        for (row, free) in next.iter_mut().zip(&mut free) {
            while let Some(&&StageAction { kind, stage: Stage(stage), micro_batch }) = row.peek() {
                let is_frozen = (stage as usize) < num_frozen;
                let end_of = |kind, stage| ends.get(&(kind, stage, micro_batch)).copied();
                let input = match kind {
                    ComputeKind::Forward if stage > 0 => end_of(ComputeKind::Forward, stage - 1),
                    ComputeKind::Backward | ComputeKind::BackwardInput if stage < last && !is_frozen => {
                        end_of(ComputeKind::BackwardInput, stage + 1)
                    }
                    _ => Some(0),
                };
                let Some(input) = input else { break };
                let time = match kind {
                    ComputeKind::Forward => 1,
                    _ if is_frozen => 0,
                    ComputeKind::Backward => 2,
                    ComputeKind::BackwardInput | ComputeKind::BackwardWeight => 1,
                };
                *free = input.max(*free) + time;
                let kind = if kind == ComputeKind::Backward { ComputeKind::BackwardInput } else { kind };
                ends.insert((kind, stage, micro_batch), *free);
                row.next();
                is_done = false;
            }
        }
    }
    free.into_iter().max().unwrap_or(0)
}

#[test]
fn few_slots_hold_nobody_up() {
    let (mut num_programs, mut num_slower, mut slots, mut slots_if_trained) = (0, 0, 0, 0);
    for (p, m) in (2..=4).flat_map(|p| [1, 3, 8, 17].map(|m| (p, m))) {
        let [one_f_one_b, eager, gpipe, _] = all_orders(p, m);
        let mut orders = Vec::from([one_f_one_b, eager, gpipe]);
        orders.extend([zb_h1(p, m), zb_h2(p, m), zb_v(p, m), bfs(p, 2, m), bfs(p, 3, m)].map(Result::unwrap));
        let groups = [p, 2 * p, m].into_iter().filter(|&group| (p..=m.max(p)).contains(&group));
        orders.extend(groups.flat_map(|group| [2, 3].map(|v| interleaved(p, v, m, group).unwrap())));
        for order in orders {
            for num_frozen in 1..order.placement.num_stages() {
                let program = frozen_in_front(&order, 1, num_frozen, &LowerOptions::ZERO_1);
                let mut costs = Costs::uniform(&program, UnitCosts::default(), MessageCost::default());
                for (unit, costs) in costs.units.iter_mut().enumerate() {
                    let backward = u64::from(unit >= num_frozen);
                    *costs = UnitCosts::of_compute(1, backward, backward);
                }
                let found = simulate(&program, &costs).unwrap().makespan();
                let wanted = end_without_limits(&order, num_frozen);
                assert!(
                    found <= wanted + wanted / 20,
                    "{found}, {wanted}: {num_frozen} of\n{}",
                    order.to_csv()
                );
                (num_programs, num_slower) = (num_programs + 1, num_slower + u32::from(found > wanted));
                for stage in (0..num_frozen as u32).map(Stage) {
                    slots += program.num_slots(stage);
                    slots_if_trained += order.in_flight(stage);
                }
            }
        }
    }
    assert!(num_slower * 10 < num_programs, "{num_slower} of {num_programs}");
    assert!(slots * 2 < slots_if_trained, "{slots} instead of {slots_if_trained}");
}
