//! A deadlock is shown as a cycle of waits, and each of them is one that the rules make.

use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

use expect_test::expect;

use super::looped::random_order;
use crate::check::{Blocked, CheckedProgram, Rule, Wait};
use crate::dependencies::Dependencies;
use crate::generate::{eager_1f1b, gpipe, one_f_one_b, zb_h1};
use crate::gradient_buffers::GradientBuffers;
use crate::instruction::{Lane, Operands};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::placement::Placement;
use crate::program::Program;
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;
use crate::testing::{Random, all_options, lowered, units};

#[test]
fn a_send_that_stands_too_late_in_its_own_row() {
    let mut program = lowered(&one_f_one_b(2, 1).unwrap(), 1, &LowerOptions::ZERO_0);
    // `SEND s0>s1 m0` and `B u0 m0`.
    program.rows[0].swap(2, 3);
    expect![[r#"
        deadlock: these 7 instructions wait for each other; reorder a row so that one of them does not:
          rank 1, step 2: `B u1 m0`, which is issued after
          rank 1, step 1: `F u1 m0`, which needs
          rank 1, step 0: `RECV s0>s1 m0`, which ends together with
          rank 0, step 3: `SEND s0>s1 m0`, which is issued after
          rank 0, step 2: `B u0 m0`, which needs
          rank 0, step 0: `RECV s1>s0 m0`, which ends together with
          rank 1, step 3: `SEND s1>s0 m0`, which is issued after
          rank 1, step 2, where it began"#]]
    .assert_eq(&CheckedProgram::new(program).unwrap_err().rule.to_string());
}

/// Holds every wait of a cycle to the rules of the program.
fn assert_is_a_cycle(program: &Program, cycle: &[Blocked]) {
    let gradients = GradientBuffers::assign(program);
    let send_buffers = SendBuffers::assign(program);
    let slots = Slots::assign(program, &send_buffers);
    let dependencies = Dependencies::derive(program, slots, send_buffers, gradients);
    let places: BTreeSet<_> = cycle.iter().map(|of| (of.rank, of.step)).collect();
    assert_eq!(places.len(), cycle.len(), "nothing stands in it twice");
    assert!(cycle.len() > 1);
    for (of, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        let row = program.row(of.rank);
        assert_eq!(row[of.step], of.instruction);
        let between = || &row[next.step + 1..of.step];
        let holds = match of.wait {
            Wait::Issue => {
                of.rank == next.rank
                    && next.step < of.step
                    && next.instruction.lane() == Lane::Compute
                    && between().iter().all(|of| of.lane() != Lane::Compute)
            }
            Wait::Lane => {
                of.rank == next.rank
                    && next.step < of.step
                    && next.instruction.lane() == of.instruction.lane()
                    && between().iter().all(|between| between.lane() != of.instruction.lane())
            }
            Wait::Need => {
                of.rank == next.rank && dependencies.waits(of.rank.at(of.step)).contains(&next.step)
            }
            Wait::Partner => match of.instruction.operands() {
                // The other end of the transfer.
                Operands::Message(..) => {
                    of.instruction.operands() == next.instruction.operands()
                        && of.instruction != next.instruction
                }
                _ => of.rank != next.rank && of.instruction == next.instruction,
            },
        };
        assert!(holds, "{of:?} does not wait for {next:?}\n{program}");
    }
}

/// Rows of different programs, each of which could run in its own.
#[test]
fn every_cycle_over_random_broken_programs_is_one() {
    let mut random = Random(7);
    let (mut num_deadlocks, mut waits) = (0, BTreeSet::new());
    for (p, m) in [(2, 2), (2, 4), (3, 3), (4, 3)] {
        for options in all_options(p) {
            let mut orders: Vec<_> =
                [gpipe, one_f_one_b, eager_1f1b, zb_h1].map(|generate| generate(p, m).unwrap()).to_vec();
            let placement = Placement::linear(p).unwrap();
            orders.extend((0..20).map(|_| random_order(&mut random, placement.clone(), m)));
            let unit = units(p, 1, false);
            let programs: Vec<_> =
                orders.iter().filter_map(|order| lower(order, &unit, &options).ok()).collect();
            for _ in 0..40 {
                let mut mixed = programs[0].clone();
                for (rank, row) in mixed.rows.iter_mut().enumerate() {
                    row.clone_from(&programs[random.below(programs.len())].rows[rank]);
                }
                if let Err(violation) = CheckedProgram::new(mixed.clone())
                    && let Rule::Deadlock(cycle) = violation.rule
                {
                    assert_is_a_cycle(&mixed, &cycle);
                    assert_eq!((violation.rank, violation.step), (cycle[0].rank, cycle[0].step));
                    num_deadlocks += 1;
                    waits.extend(cycle.iter().map(|of| format!("{:?}", of.wait)));
                }
            }
        }
    }
    assert!(num_deadlocks > 200, "{num_deadlocks}");
    // Here messages are read in the order of their coming, so none is stuck behind another on its lane.
    assert!(waits.iter().eq(["Issue", "Need", "Partner"]), "{waits:?}");
}
