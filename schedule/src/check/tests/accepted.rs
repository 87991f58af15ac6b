//! Every generated program is accepted, and holds what the closed forms say.

use super::{looped, reference};
use crate::check::CheckedProgram;
use crate::closed_form::strict_gathers;
use crate::generate::{eager_1f1b, gpipe, one_f_one_b};
use crate::instruction::{InstructionKind, Lane};
use crate::options::{LowerOptions, Reduction, Residency, Weights};
use crate::testing::{Sample, all_programs, checked, resident};

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

#[test]
fn orders_with_one_stage_per_rank_hold_in_flight_what_they_say() {
    for (p, m) in (1..=4).flat_map(|p| (1..=8).map(move |m| (p, m))) {
        for generate in [one_f_one_b, eager_1f1b, gpipe] {
            looped::checked(&generate(p, m).unwrap(), 2, false, &LowerOptions::ZERO_1);
        }
    }
}

#[test]
fn gathered_units_stay_within_the_budget_and_strict_counts_are_exact() {
    for (p, m) in (1..=4).flat_map(|p| (1..=6).map(move |m| (p, m))) {
        for (prefetch_units, generate) in (0..=3).flat_map(|k| [one_f_one_b, gpipe].map(|of| (k, of))) {
            let options = LowerOptions::zero_3(Residency::Strict, prefetch_units);
            let program = checked(&generate(p, m).unwrap(), 3, &options);
            for rank in program.ranks() {
                assert_eq!(program.count(rank, InstructionKind::Unshard) as u64, strict_gathers(m, 3));
                // A buffer per unit is all that a rank has.
                let most = (1 + prefetch_units as usize).min(3);
                assert_eq!(program.high_water(rank).gathered_units, most);
                assert_eq!(program.count(rank, InstructionKind::Reduce) as u32, 3 * m);
                assert_eq!(program.high_water(rank).gradient_buffers, 2);
            }
        }
    }
}

#[test]
fn budgets_never_gather_more_than_strict_or_hold_more_than_allowed() {
    let budgets = || (0..=2).flat_map(|prefetch| (1 + prefetch..=5).map(move |budget| (prefetch, budget)));
    for ((p, m), (prefetch_units, budget)) in
        [(1, 3), (2, 1), (3, 5), (4, 8)].into_iter().flat_map(|size| budgets().map(move |of| (size, of)))
    {
        let weights = Weights::Sharded { residency: resident(budget), prefetch_units };
        let options = LowerOptions { weights, reduction: Reduction::ScatterLast, ..LowerOptions::ZERO_0 };
        let program = checked(&one_f_one_b(p, m).unwrap(), 4, &options);
        for rank in program.ranks() {
            assert!(program.count(rank, InstructionKind::Unshard) as u64 <= strict_gathers(m, 4));
            assert!(program.high_water(rank).gathered_units <= budget as usize);
            assert_eq!(program.high_water(rank).gradient_buffers, 4);
            assert_eq!(program.count(rank, InstructionKind::ReduceLast), 4);
        }
    }
}
