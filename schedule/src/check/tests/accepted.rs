//! Every generated program is accepted, and holds what the closed forms say.

use std::vec::Vec;

use super::reference;
use crate::check::CheckedProgram;
use crate::closed_form::{eager_1f1b_in_flight, one_f_one_b_in_flight, strict_gathers};
use crate::generate::{eager_1f1b, forward_only, gpipe, one_f_one_b};
use crate::id::{PipelineRank, Stage};
use crate::instruction::{InstructionKind, Lane};
use crate::options::{LowerOptions, Reduction, Residency, Weights};
use crate::program::{Program, Purpose};
use crate::testing::{Sample, all_programs, lowered, resident};

#[test]
fn every_generated_program_is_accepted_and_plays_to_its_end() {
    let mut sample =
        Sample::one_in(4, "program with one stage per rank, checked and played by the reference");
    for program in all_programs(4, 8, 3).filter(|_| sample.takes_next()) {
        assert_eq!(reference::play(&program), Ok(()), "{program}");
        let text = program.clone();
        match CheckedProgram::new(program) {
            Ok(program) => assert_only_computes_wait_for_other_lanes(&program),
            Err(violation) => panic!("{violation}\n{text}"),
        }
    }
    assert!(sample.num_cases() > 5000, "{}", sample.num_cases());
}

fn assert_only_computes_wait_for_other_lanes(program: &CheckedProgram) {
    for rank in program.ranks() {
        let row = program.row(rank);
        for (index, instruction) in row.iter().enumerate() {
            for &wait in program.waits(rank.at(index)) {
                let (lane, waits_for) = (instruction.lane(), row[wait].lane());
                assert!(wait < index && lane != waits_for, "{instruction} waits for {}", row[wait]);
                assert!(
                    lane == Lane::Compute || waits_for == Lane::Compute,
                    "{instruction} holds up its row"
                );
            }
        }
    }
}

fn checked(program: Program) -> CheckedProgram {
    CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn in_flight_and_slots_equal_the_closed_forms() {
    for p in 1..=4 {
        for m in 1..=8 {
            for stage in (0..p).map(Stage) {
                let lowered = |order| {
                    let program = lowered(&order, 2, &LowerOptions::ZERO_1);
                    let program = checked(program);
                    let high_water = program.high_water(PipelineRank(stage.0));
                    assert_eq!(high_water.in_flight, [(stage, order.in_flight(stage))], "one stage per rank");
                    assert_eq!(program.num_slots(stage), order.in_flight(stage));
                    order.in_flight(stage)
                };
                assert_eq!(lowered(one_f_one_b(p, m).unwrap()), one_f_one_b_in_flight(p, m, stage) as usize);
                assert_eq!(lowered(eager_1f1b(p, m).unwrap()), eager_1f1b_in_flight(p, m, stage) as usize);
                assert_eq!(lowered(gpipe(p, m).unwrap()), m as usize);
            }
        }
    }
}

#[test]
fn an_evaluation_has_two_slots_where_it_sends_and_one_at_the_end() {
    for m in 1..=5 {
        let order = forward_only(3, m).unwrap();
        let program = checked(lowered(&order, 2, &LowerOptions::ZERO_0));
        assert_eq!(program.purpose(), Purpose::Evaluation);
        let slots: Vec<_> = (0..3).map(|stage| program.num_slots(Stage(stage))).collect();
        let sending = 2.min(m) as usize;
        assert_eq!(slots, [sending, sending, 1]);
        for micro_batch in (0..m).map(crate::MicroBatch) {
            assert_eq!(program.slot(Stage(0), micro_batch), micro_batch.index() % 2, "slots take turns");
        }
    }
}

#[test]
fn gathered_units_stay_within_the_budget_and_strict_counts_are_exact() {
    for p in 1..=4 {
        for m in 1..=6 {
            for prefetch_units in 0..=3 {
                let options = LowerOptions::zero_3(Residency::Strict, prefetch_units);
                for order in [one_f_one_b(p, m).unwrap(), gpipe(p, m).unwrap()] {
                    let program = checked(lowered(&order, 3, &options));
                    for rank in (0..p).map(PipelineRank) {
                        let gathers = program.count(rank, InstructionKind::Unshard) as u64;
                        assert_eq!(gathers, strict_gathers(m, 3));
                        // A buffer per unit is all that a rank has.
                        let most = (1 + prefetch_units as usize).min(3);
                        assert_eq!(program.high_water(rank).gathered_units, most);
                        assert_eq!(program.count(rank, InstructionKind::Reduce) as u32, 3 * m);
                        assert_eq!(program.high_water(rank).gradient_buffers, 2);
                    }
                }
            }
        }
    }
}

#[test]
fn budgets_never_gather_more_than_strict_or_hold_more_than_allowed() {
    for (p, m) in [(1, 3), (2, 1), (3, 5), (4, 8)] {
        for prefetch_units in 0..=2 {
            for budget in 1 + prefetch_units..=5 {
                let options = LowerOptions {
                    weights: Weights::Sharded { residency: resident(budget), prefetch_units },
                    reduction: Reduction::ScatterLast,
                    gather_after_step: false,
                };
                let order = one_f_one_b(p, m).unwrap();
                let program = checked(lowered(&order, 4, &options));
                for rank in (0..p).map(PipelineRank) {
                    assert!(program.count(rank, InstructionKind::Unshard) as u64 <= strict_gathers(m, 4));
                    assert!(program.high_water(rank).gathered_units <= budget as usize);
                    assert_eq!(program.high_water(rank).gradient_buffers, 4);
                    assert_eq!(program.count(rank, InstructionKind::ReduceLast), 4);
                }
            }
        }
    }
}
