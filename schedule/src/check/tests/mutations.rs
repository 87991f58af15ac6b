//! Valid programs, broken on purpose: each mutant is rejected for the right reason or shown to do the same.
//!
//! A mutant that is accepted must play to its end in the reference, and touch no buffer too early in the machine. A
//! mutant that the reference would let pass is rejected only by a rule of form, which keeps more than the result:
//! that nothing is held for nothing and gathered as the policy says, that a stage's units run together and each
//! recompute stands by its backward, that reductions and the tail keep their order.

use std::collections::BTreeMap;
use std::string::ToString;
use std::vec::Vec;

use super::{machine, reference};
use crate::check::GatherFault::*;
use crate::check::{CheckedProgram, Rule};
use crate::generate::{one_f_one_b, zb_h1};
use crate::id::PipelineRank;
use crate::instruction::InstructionKind::*;
use crate::instruction::{Instruction, Lane};
use crate::lower::lower;
use crate::options::UnreducedGradients;
use crate::program::Program;
use crate::testing::{Random, Sample, all_options, all_programs, options_in_turn, units};

/// What became of mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Rejected by checker and reference.
    wrong: usize,
    /// Rejected by a rule of form alone.
    form: usize,
    /// Accepted, every lane as it was.
    same_lanes: usize,
    /// Accepted with another order on some lane, and played to the same end.
    same_result: usize,
}

fn lanes(row: &[Instruction]) -> BTreeMap<Lane, Vec<Instruction>> {
    let mut lanes: BTreeMap<Lane, Vec<Instruction>> = BTreeMap::new();
    for &instruction in row {
        lanes.entry(instruction.lane()).or_default().push(instruction);
    }
    lanes
}

fn is_rule_of_form(rule: &Rule) -> bool {
    matches!(
        rule,
        Rule::Gathering {
            fault: HeldPastLastUse { .. } | UsedAgain { .. } | GatheredAgain | RecomputeNotUsed { .. },
            ..
        } | Rule::RunsBefore {
            instruction: Instruction::Recompute { .. },
            needed: Instruction::Backward { .. }
        } | Rule::Interrupted { .. }
            | Rule::ReducedOutOfTurn { .. }
            | Rule::Tail { .. }
    )
}

/// Compares checker and reference on a mutant in which the row of `rank` was changed.
fn judge(original: &Program, mutant: Program, rank: usize, tally: &mut Tally) {
    let played = reference::play(&mutant);
    match CheckedProgram::new(mutant.clone()) {
        Ok(checked) => {
            assert_eq!(played, Ok(()), "accepted, but the reference stops\n{mutant}");
            if let Err(hazard) = machine::run(&checked, rank as u64) {
                panic!("accepted, but {hazard}\n{mutant}");
            }
            if lanes(&original.rows[rank]) == lanes(&mutant.rows[rank]) {
                tally.same_lanes += 1;
            } else {
                tally.same_result += 1;
            }
        }
        Err(violation) if played.is_ok() => {
            assert!(is_rule_of_form(&violation.rule), "the reference passes, but {violation}\n{mutant}");
            tally.form += 1;
        }
        Err(_) => tally.wrong += 1,
    }
}

/// The programs whose mutants are all tried; at these sizes many orders are the same.
fn small_programs() -> Vec<Program> {
    let by_text = all_programs(2, 2, 2).map(|program| (program.to_string(), program));
    by_text.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn with_row(program: &Program, rank: usize, change: impl FnOnce(&mut Vec<Instruction>)) -> Program {
    let mut mutant = program.clone();
    change(&mut mutant.rows[rank]);
    mutant
}

fn rule_of(mutant: Program) -> Rule {
    match CheckedProgram::new(mutant.clone()) {
        Ok(_) => panic!("accepted:\n{mutant}"),
        Err(violation) => violation.rule,
    }
}

fn split_programs() -> impl Iterator<Item = Program> {
    let order = zb_h1(2, 2).unwrap();
    all_options(2).into_iter().map(move |options| lower(&order, &units(2, 2, true), &options).unwrap())
}

/// Changes each instruction of programs in turn, and asserts that the checker names a rule that is right for it.
fn assert_rejected(
    case: &'static str,
    change: fn(&mut Vec<Instruction>, usize),
    is_right: fn(Instruction, usize, &Rule) -> bool,
) {
    let mut sample = Sample::one_in(3, case);
    for program in all_programs(3, 3, 2).filter(|_| sample.takes_next()).chain(split_programs()) {
        for (rank, row) in program.rows.iter().enumerate() {
            for (step, &instruction) in row.iter().enumerate() {
                let rule = rule_of(with_row(&program, rank, |row| change(row, step)));
                let place = format!("`{instruction}` at rank {rank}, step {step}");
                assert!(is_right(instruction, step, &rule), "{case}: {place}: {rule:?}\n{program}");
            }
        }
    }
}

#[test]
fn every_dropped_instruction_is_missed() {
    assert_rejected(
        "program, without each of its instructions in turn",
        |row, step| _ = row.remove(step),
        |dropped, _, rule| match (dropped.kind(), rule) {
            (Unshard, Rule::Gathering { fault, .. }) => matches!(fault, NotGathered { .. }),
            (Reshard, Rule::Gathering { fault, .. }) => {
                matches!(fault, HeldPastLastUse { .. } | NeverResharded | UsedAgain { .. })
            }
            (Reshard, rule) => matches!(rule, Rule::OverBudget { .. } | Rule::NoGatherBuffer { .. }),
            (Reduce, Rule::ReducedOutOfTurn { expected: reduction, .. })
            | (Reduce, Rule::BufferTaken { freed_by: reduction, .. }) => *reduction == dropped,
            (AddTied | GradientNorm | OptimizerStep | GatherAfterStep, rule) => {
                matches!(rule, Rule::Tail { expected, .. } if *expected == Some(dropped))
            }
            (_, rule) => *rule == Rule::Missing(dropped),
        },
    );
}

#[test]
fn every_doubled_instruction_is_seen() {
    assert_rejected(
        "program, with each of its instructions twice in turn",
        |row, step| row.insert(step, row[step]),
        |doubled, step, rule| match (doubled.kind(), rule) {
            (Unshard, Rule::Gathering { fault, .. }) => {
                matches!(fault, GatheredAgain | HeldPastLastUse { .. } | NeverResharded | Unused)
            }
            (Unshard, rule) => matches!(rule, Rule::OverBudget { .. } | Rule::NoGatherBuffer { .. }),
            (Reshard, rule) => matches!(rule, Rule::Gathering { fault: NotHeld | Unused, .. }),
            (Reduce, rule) => {
                matches!(rule, Rule::RunsBefore { instruction, .. } if *instruction == doubled)
            }
            (AddTied | GradientNorm | OptimizerStep | GatherAfterStep, rule) => {
                matches!(rule, Rule::Tail { found, .. } if *found == Some(doubled))
            }
            (_, rule) => *rule == Rule::Repeated { instruction: doubled, first: step },
        },
    );
}

#[test]
fn every_swap_of_neighbours_is_rejected_or_does_the_same() {
    let mut tally = Tally::default();
    for program in small_programs() {
        for (rank, row) in program.rows.iter().enumerate() {
            for step in 1..row.len() {
                let mutant = with_row(&program, rank, |row| row.swap(step - 1, step));
                judge(&program, mutant, rank, &mut tally);
            }
        }
    }
    assert!(tally.wrong > 0 && tally.form > 0 && tally.same_lanes > 0, "{tally:?}");
}

#[test]
fn every_move_to_any_other_place_is_rejected_or_does_the_same() {
    let mut tally = Tally::default();
    let mut sample = Sample::one_in(3, "program, with each of its instructions moved to each other place");
    for program in small_programs().into_iter().filter(|_| sample.takes_next()) {
        for (rank, row) in program.rows.iter().enumerate() {
            for from in 0..row.len() {
                for to in (0..row.len()).filter(|&to| to != from) {
                    let mutant = with_row(&program, rank, |row| {
                        let instruction = row.remove(from);
                        row.insert(to, instruction);
                    });
                    judge(&program, mutant, rank, &mut tally);
                }
            }
        }
    }
    assert!(tally.wrong > 0 && tally.form > 0 && tally.same_lanes > 0 && tally.same_result > 0, "{tally:?}");
}

#[test]
fn every_instruction_on_another_rank_is_rejected() {
    let mut sample = Sample::one_in(3, "program, with each of its instructions moved to another rank");
    for program in
        small_programs().into_iter().filter(|program| program.rows.len() == 2).filter(|_| sample.takes_next())
    {
        for step in 0..program.rows[0].len() {
            for to in 0..=program.rows[1].len() {
                let mut mutant = program.clone();
                let moved = mutant.rows[0].remove(step);
                mutant.rows[1].insert(to, moved);
                let violation = CheckedProgram::new(mutant).expect_err("it is not of that rank");
                let everywhere = matches!(moved, Instruction::GradientNorm | Instruction::AddTied { .. });
                let expected = Rule::WrongRank { instruction: moved, belongs_on: PipelineRank(0) };
                assert!(violation.rule == expected || everywhere, "{violation}");
            }
        }
    }
}

#[test]
fn larger_programs_with_several_changes_are_rejected_or_do_the_same() {
    let mut random = Random(1);
    let programs: Vec<Program> = all_programs(4, 8, 3).collect();
    let mut tally = Tally::default();
    for _ in 0..6000 {
        let program = &programs[random.below(programs.len())];
        let rank = random.below(program.rows.len());
        let num_changes = 1 + random.below(3);
        let mutant = with_row(program, rank, |row| {
            for _ in 0..num_changes {
                let from = random.below(row.len());
                let instruction = row.remove(from);
                // Short moves, so that some mutants are nearly right.
                let to = (from + random.below(9)).saturating_sub(4).min(row.len());
                row.insert(to, instruction);
            }
        });
        judge(program, mutant, rank, &mut tally);
    }
    assert!(tally.wrong > 0 && tally.form > 0 && tally.same_lanes > 0 && tally.same_result > 0, "{tally:?}");
}

/// With one gradient buffer a reduction stands before the next gradient: behind it, as two buffers would let it, the program is refused.
#[test]
fn a_reduction_behind_the_gradient_that_takes_its_buffer_is_refused() {
    let mut num_refused = 0;
    let orders = [one_f_one_b(2, 3), zb_h1(2, 3)].map(Result::unwrap);
    for (order, options) in
        orders.iter().flat_map(|of| options_in_turn().into_iter().map(move |with| (of, with)))
    {
        let program = lower(order, &units(2, 2, true), &options).unwrap();
        for (rank, row) in program.rows.iter().enumerate() {
            let is_gradient = |of: &Instruction| matches!(of.kind(), Backward | BackwardWeight);
            for (step, &freed_by) in row.iter().enumerate().filter(|(_, of)| of.kind() == Reduce) {
                let Some(next) = row[step..].iter().position(is_gradient) else { continue };
                let late = with_row(&program, rank, |row| row[step..=step + next].rotate_left(1));
                let instruction = row[step + next];
                assert_eq!(rule_of(late.clone()), Rule::BufferTaken { instruction, freed_by });
                let mut overlapped = late;
                overlapped.options.unreduced = UnreducedGradients::Two;
                CheckedProgram::new(overlapped).unwrap();
                num_refused += 1;
            }
        }
    }
    assert!(num_refused > 50, "{num_refused}");
}
