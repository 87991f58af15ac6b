//! Stages in front of all that is trained: no gradients come to them, and they hold what they would in an evaluation.

use std::collections::BTreeSet;
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
use crate::order::ComputeOrder;
use crate::protocol::FORWARD_SLOTS;
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
                for num_frozen in 1..order.placement.num_stages() * per_stage as usize {
                    for options in all_options(p).into_iter().filter(|_| sample.takes_next()) {
                        let program = frozen_in_front(order, per_stage, num_frozen, &options);
                        assert_front(&program, num_frozen);
                        assert_runs(&program, true, Some(u64::from(p * m)));
                        let stages = 0..num_frozen as u32 / per_stage;
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

/// Rank 1 turns to stage 3 before it takes a second message of stage 0, and stage 2, without which it cannot, comes after all of stage 0.
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
    // Two messages lie in the receiver's buffers and one is read.
    assert_eq!(program.num_slots(Stage(0)), m as usize - 3);
    assert_eq!(program.placement().rank(Stage(0)), PipelineRank(0));
}
