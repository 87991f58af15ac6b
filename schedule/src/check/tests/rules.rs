//! Each rule, broken alone, and the messages as a user sees them.

use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use expect_test::{Expect, expect};

use super::shapes::{order, split_order};
use crate::check::{CheckedProgram, GatherFault, Rule};
use crate::generate::{gpipe, one_f_one_b};
use crate::id::{MicroBatch, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::lower::lower;
use crate::options::{LowerOptions, OptionsError, Reduction, Residency, Weights};
use crate::order::ComputeOrder;
use crate::program::{Program, Purpose};
use crate::testing::{lowered, resident};
use crate::unit_facts::UnitFacts;

fn one_f_one_b_program(p: u32, m: u32, per_stage: u32, options: LowerOptions) -> Program {
    lowered(&one_f_one_b(p, m).unwrap(), per_stage, &options)
}

fn rule_of(program: Program) -> Rule {
    CheckedProgram::new(program).expect_err("the rule is broken").rule
}

fn message(program: Program, expected: Expect) {
    // Grids end lines without spaces; the messages are compared as printed.
    expected.assert_eq(&CheckedProgram::new(program).expect_err("the rule is broken").to_string());
}

/// Row 0 sends micro-batch 1 only after the backward of 0, for which row 1 first wants micro-batch 1.
fn deadlocked() -> Program {
    let one_at_a_time = order(&[0, 1], 2, &["0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1"]);
    let lowered = |order: &ComputeOrder| lowered(order, 1, &LowerOptions::ZERO_0);
    let mut program = lowered(&gpipe(2, 2).unwrap());
    program.rows[0] = lowered(&one_at_a_time).rows[0].clone();
    program
}

#[test]
fn a_deadlock_is_shown_as_its_cycle() {
    message(
        deadlocked(),
        expect![[r#"
            rank 1, step 4: deadlock: these 8 instructions wait for each other; reorder a row so that one of them does not:
              rank 1, step 4: `B u1 m0`, which is issued after
              rank 1, step 3: `F u1 m1`, which needs
              rank 1, step 1: `RECV s0>s1 m1`, which ends together with
              rank 0, step 6: `SEND s0>s1 m1`, which is issued after
              rank 0, step 5: `F u0 m1`, which is issued after
              rank 0, step 4: `B u0 m0`, which needs
              rank 0, step 0: `RECV s1>s0 m0`, which ends together with
              rank 1, step 5: `SEND s1>s0 m0`, which is issued after
              rank 1, step 4, where it began
                     rank 0         rank 1
            step 0   RECV s1>s0 m0  RECV s0>s1 m0
            step 1   RECV s1>s0 m1  RECV s0>s1 m1
            step 2   F u0 m0        F u1 m0
            step 3   SEND s0>s1 m0  F u1 m1
            step 4   B u0 m0        B u1 m0   <-- here, rank 1
            step 5   F u0 m1        SEND s1>s0 m0
            step 6   SEND s0>s1 m1  B u1 m1
        "#]],
    );
}

#[test]
fn a_dropped_gather_is_shown_in_its_grid() {
    let mut program = one_f_one_b_program(2, 2, 1, LowerOptions::zero_3(Residency::Strict, 0));
    let gather = program.rows[1].iter().position(|of| matches!(of, Instruction::Unshard { .. })).unwrap();
    program.rows[1].remove(gather);
    message(
        program,
        expect![[r#"
            rank 1, step 2: `F u1 m0` reads weights that are not gathered; `UNSHARD u1` before it
                     rank 0         rank 1
            step 0   RECV s1>s0 m0  RECV s0>s1 m0
            step 1   RECV s1>s0 m1  RECV s0>s1 m1
            step 2   UNSHARD u0     F u1 m0   <-- here, rank 1
            step 3   F u0 m0        RESHARD u1
            step 4   SEND s0>s1 m0  UNSHARD u1
        "#]],
    );
}

#[test]
fn a_missing_send_is_shown_at_the_end() {
    let mut program = one_f_one_b_program(2, 1, 1, LowerOptions::ZERO_1);
    program.rows[0].retain(|instruction| !matches!(instruction, Instruction::Send { .. }));
    message(
        program,
        expect![[r#"
        rank 0, step 7: `SEND s0>s1 m0` is missing; a step has it exactly once
                 rank 0          rank 1
        step 3   REDUCE_LAST u0  SEND s1>s0 m0
        step 4   GRAD_NORM       REDUCE_LAST u1
        step 5   STEP u0         GRAD_NORM
        step 6   GATHER_STEP u0  STEP u1
        step 7   (end)           GATHER_STEP u1   <-- here, rank 0
        step 8                   (end)
    "#]],
    );
}

#[test]
fn the_header_is_checked() {
    let valid = || one_f_one_b_program(2, 2, 1, LowerOptions::zero_3(resident(2), 1));
    let broken = |change: fn(&mut Program)| {
        let mut program = valid();
        change(&mut program);
        rule_of(program)
    };
    assert_eq!(broken(|program| drop(program.rows.pop())), Rule::NumRows { num_rows: 1, num_ranks: 2 });
    assert_eq!(broken(|program| program.rows.clear()), Rule::NumRows { num_rows: 0, num_ranks: 2 });
    assert_eq!(broken(|program| program.num_micro_batches = 0), Rule::NoMicroBatch);
    let budget = OptionsError::BudgetBelowPrefetch { units: 1, prefetch_units: 1 };
    assert_eq!(
        broken(|program| {
            program.options.weights = Weights::Sharded { residency: resident(1), prefetch_units: 1 };
        }),
        Rule::Options(budget)
    );
    assert_eq!(
        broken(|program| program.options.gather_after_step = true),
        Rule::Options(OptionsError::GatherAfterStep { asked: true })
    );
    assert_eq!(
        broken(|program| program.options.reduction = Reduction::AllReduceLast),
        Rule::Options(OptionsError::AllReduceOfShardedWeights)
    );
    assert!(matches!(
        broken(|program| program.options.reduction = Reduction::ScatterLast),
        Rule::NotOfPolicy(_)
    ));
    assert!(matches!(broken(|program| program.purpose = Purpose::Evaluation), Rule::NotOfPolicy(_)));
    assert!(matches!(broken(|program| program.num_micro_batches = 1), Rule::NotThere(_)));
}

#[test]
fn a_claimed_size_costs_nothing() {
    let mut program = one_f_one_b_program(2, 2, 1, LowerOptions::ZERO_0);
    program.num_micro_batches = u32::MAX;
    let missing = Instruction::Forward { unit: Unit(0), micro_batch: MicroBatch(2) };
    assert_eq!(rule_of(program), Rule::Missing(missing));
}

#[test]
fn instructions_name_what_exists() {
    let (unit, micro_batch) = (Unit(0), MicroBatch(0));
    let nowhere = [
        Instruction::Forward { unit: Unit(2), micro_batch },
        Instruction::Forward { unit, micro_batch: MicroBatch(2) },
        Instruction::Unshard { unit: Unit(u32::MAX) },
        Instruction::Send { edge: Edge::Up(Stage(1)), micro_batch },
        Instruction::Send { edge: Edge::Down(Stage(u32::MAX)), micro_batch },
        Instruction::Receive { edge: Edge::Down(Stage(0)), micro_batch: MicroBatch(9) },
        Instruction::AddTied { embedding: Unit(0), head: Unit(1) },
    ];
    for instruction in nowhere {
        let mut program = one_f_one_b_program(2, 2, 1, LowerOptions::ZERO_0);
        program.rows[0].insert(0, instruction);
        assert_eq!(rule_of(program), Rule::NotThere(instruction));
    }
}

#[test]
fn halves_do_not_mix_with_a_full_backward() {
    let (unit, micro_batch) = (Unit(1), MicroBatch(1));
    for half in
        [Instruction::BackwardInput { unit, micro_batch }, Instruction::BackwardWeight { unit, micro_batch }]
    {
        let mut program = one_f_one_b_program(1, 2, 2, LowerOptions::ZERO_0);
        let at = program.rows[0].len() - 4;
        program.rows[0].insert(at, half);
        assert_eq!(rule_of(program), Rule::BothBackwards { unit, micro_batch });
    }
}

#[test]
fn a_weight_gradient_follows_its_input_gradient() {
    let mut program = lowered(&split_order(), 1, &LowerOptions::ZERO_0);
    let (unit, micro_batch) = (Unit(0), MicroBatch(0));
    let weight = Instruction::BackwardWeight { unit, micro_batch };
    let row = &mut program.rows[0];
    row.retain(|&instruction| instruction != weight);
    row.insert(0, weight);
    let needed = Instruction::BackwardInput { unit, micro_batch };
    assert_eq!(rule_of(program), Rule::RunsBefore { instruction: weight, needed });
}

#[test]
fn both_ends_of_an_edge_keep_one_order() {
    let mut program = lowered(&gpipe(2, 2).unwrap(), 1, &LowerOptions::ZERO_0);
    let edge = Edge::Up(Stage(0));
    let position = |row: &[Instruction], m| {
        row.iter().position(|&of| of == Instruction::Receive { edge, micro_batch: MicroBatch(m) }).unwrap()
    };
    let row = &mut program.rows[1];
    let second = row.remove(position(row, 1));
    row.insert(position(row, 0), second);
    let expected = Rule::ReceivedOutOfOrder { edge, received: MicroBatch(1), sent: MicroBatch(0) };
    assert_eq!(rule_of(program), expected);
}

#[test]
fn stages_on_one_rank_keep_their_order() {
    let mut program = lowered(&order(&[0, 0], 1, &["0F0 1F0 1B0 0B0"]), 1, &LowerOptions::ZERO_0);
    let micro_batch = MicroBatch(0);
    let forward = |unit| Instruction::Forward { unit: Unit(unit), micro_batch };
    program.rows[0].swap(0, 1);
    assert_eq!(rule_of(program.clone()), Rule::RunsBefore { instruction: forward(1), needed: forward(0) });
    program.rows[0].swap(0, 1);
    let backward = |unit| Instruction::Backward { unit: Unit(unit), micro_batch };
    let first_backward = program.rows[0].iter().position(|&of| of == backward(1)).unwrap();
    let second_backward = program.rows[0].iter().position(|&of| of == backward(0)).unwrap();
    program.rows[0].swap(first_backward, second_backward);
    assert_eq!(rule_of(program), Rule::RunsBefore { instruction: backward(0), needed: backward(1) });
}

#[test]
fn every_rule_says_value_and_repair() {
    let rules: Vec<(Rule, &str)> = vec![
        (
            Rule::Gathering { unit: Unit(3), fault: GatherFault::NotHeld },
            "`RESHARD u3` gives back a unit that is not gathered; drop it",
        ),
        (
            Rule::OverBudget { held: 3, budget: 2 },
            "3 gathered units are held here, 2 are allowed; reshard one first, or allow more",
        ),
        (
            Rule::Tail { found: Some(Instruction::GradientNorm), expected: None },
            "the step is over, but `GRAD_NORM` follows its tail; drop it",
        ),
        (
            Rule::Tail { found: None, expected: Some(Instruction::GradientNorm) },
            "the row ends where `GRAD_NORM` is due in the tail of the step",
        ),
    ];
    for (rule, message) in rules {
        assert_eq!(rule.to_string(), String::from(message));
    }
}

fn gathering(unit: u32, fault: GatherFault) -> Rule {
    Rule::Gathering { unit: Unit(unit), fault }
}

/// Two copies of the large unit, where there is a large and a small buffer.
#[test]
fn gathered_copies_stay_within_the_bytes() {
    let facts = [256, 16].map(|num_bytes| UnitFacts::new(Stage(0), num_bytes));
    let lowered =
        |residency| lower(&one_f_one_b(1, 1).unwrap(), &facts, &LowerOptions::zero_3(residency, 0)).unwrap();
    let mut program = lowered(Residency::Strict);
    program.options = LowerOptions::zero_3(Residency::Strict, 1);
    let large = Instruction::Unshard { unit: Unit(0) };
    let second = program.rows[0].iter().rposition(|&of| of == large).unwrap();
    program.rows[0].remove(second);
    program.rows[0].insert(1, large);
    let rule = Rule::NoGatherBuffer { unit: Unit(0), num_bytes: 256, held_bytes: 256, budget_bytes: 272 };
    assert_eq!(
        rule.to_string(),
        "no gather buffer is free for the 256 bytes of unit 0: copies of 256 bytes lie in the buffers of 272 bytes in \
         all; reshard one first, gather in another order, or allow more"
    );
    assert_eq!(rule_of(program), rule);
    let one = lowered(resident(1));
    assert_eq!(CheckedProgram::new(one).unwrap().gather_buffers(crate::PipelineRank(0)), [256]);
}

#[test]
fn strict_copies_serve_one_use_and_all_are_gathered_once() {
    let reader = Instruction::Backward { unit: Unit(0), micro_batch: MicroBatch(0) };
    let mut kept = one_f_one_b_program(1, 1, 1, LowerOptions::zero_3(resident(1), 0));
    kept.options = LowerOptions::zero_3(Residency::Strict, 0);
    assert_eq!(rule_of(kept), gathering(0, GatherFault::UsedAgain { reader }));
    let mut again = one_f_one_b_program(1, 1, 1, LowerOptions::zero_3(Residency::Strict, 0));
    again.options = LowerOptions::zero_3(Residency::All, 0);
    assert_eq!(rule_of(again), gathering(0, GatherFault::GatheredAgain));
}

/// Two units that recompute, one micro-batch: ... R u1, B u1, REDUCE u1, R u0, B u0, ...
fn recomputing() -> Program {
    let facts = UnitFacts { recomputes: true, ..UnitFacts::new(Stage(0), 64) };
    lower(&one_f_one_b(1, 1).unwrap(), &[facts; 2], &LowerOptions::zero_3(resident(2), 0)).unwrap()
}

fn moved(mut program: Program, instruction: Instruction, before: Instruction) -> Program {
    let row = &mut program.rows[0];
    row.retain(|&of| of != instruction);
    let at = row.iter().position(|&of| of == before).unwrap();
    row.insert(at, instruction);
    program
}

#[test]
fn a_recompute_and_its_backward_stand_together() {
    let micro_batch = MicroBatch(0);
    let recompute = |unit| Instruction::Recompute { unit: Unit(unit), micro_batch };
    let backward = |unit| Instruction::Backward { unit: Unit(unit), micro_batch };
    let forward = |unit| Instruction::Forward { unit: Unit(unit), micro_batch };
    // There is one buffer for what is recomputed.
    let rule = rule_of(moved(recomputing(), recompute(0), backward(1)));
    assert_eq!(rule, Rule::Interrupted { instruction: recompute(0), expected: backward(1) });
    let rule = rule_of(moved(recomputing(), backward(1), recompute(1)));
    assert_eq!(rule, Rule::RunsBefore { instruction: backward(1), needed: recompute(1) });
    let rule = rule_of(moved(recomputing(), recompute(1), forward(1)));
    assert_eq!(rule, Rule::RunsBefore { instruction: recompute(1), needed: forward(1) });
    let mut missing = recomputing();
    missing.rows[0].retain(|&of| of != recompute(0));
    assert_eq!(rule_of(missing), Rule::Missing(recompute(0)));
    let mut asked_by_none = one_f_one_b_program(1, 1, 2, LowerOptions::ZERO_0);
    asked_by_none.rows[0].insert(2, recompute(1));
    assert_eq!(rule_of(asked_by_none), Rule::NotOfPolicy(recompute(1)));
    let half = Instruction::BackwardInput { unit: Unit(1), micro_batch };
    let mut split = recomputing();
    let at = split.rows[0].iter().position(|&of| of == backward(1)).unwrap();
    split.rows[0].splice(at..=at, [half, Instruction::BackwardWeight { unit: Unit(1), micro_batch }]);
    assert_eq!(rule_of(split), Rule::SplitRecompute(half));
}

#[test]
fn a_recompute_and_its_backward_are_one_use_of_the_weights() {
    let mut program = recomputing();
    let unit = Unit(1);
    let backward = Instruction::Backward { unit, micro_batch: MicroBatch(0) };
    let at = program.rows[0].iter().position(|&of| of == backward).unwrap();
    program.rows[0].splice(at..at, [Instruction::Reshard { unit }, Instruction::Unshard { unit }]);
    assert_eq!(rule_of(program), gathering(1, GatherFault::RecomputeNotUsed { reader: backward }));
}

#[test]
fn persistent_units_are_not_gathered_in_the_step_but_after_it() {
    let facts = UnitFacts { is_persistent: true, ..UnitFacts::new(Stage(0), 64) };
    let options = LowerOptions::zero_3(Residency::Strict, 0);
    let lowered = || lower(&one_f_one_b(1, 1).unwrap(), &[facts], &options).unwrap();
    let gather = Instruction::Unshard { unit: Unit(0) };
    let mut gathered = lowered();
    gathered.rows[0].insert(0, gather);
    assert_eq!(rule_of(gathered), Rule::NotOfPolicy(gather));
    let mut stale = lowered();
    let gather_after_step = stale.rows[0].pop();
    assert_eq!(gather_after_step, Some(Instruction::GatherAfterStep { unit: Unit(0) }));
    assert_eq!(rule_of(stale), Rule::Tail { found: None, expected: gather_after_step });
}
