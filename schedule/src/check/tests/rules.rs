//! Each rule, broken alone, and the messages as a user sees them.

use std::string::{String, ToString};

use expect_test::{Expect, expect};

use crate::check::{CheckedProgram, Rule};
use crate::generate::{gpipe, one_f_one_b, zb_h1};
use crate::id::{PipelineRank, Stage};
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::program::Program;
use crate::testing::{instruction, lowered, order, resident};
use crate::unit_facts::{UnitFacts, UnitSharding};

fn one_f_one_b_program(p: u32, m: u32, per_stage: u32, options: LowerOptions) -> Program {
    lowered(&one_f_one_b(p, m).unwrap(), per_stage, &options)
}

/// The program of one rank, micro-batch and stage with these units.
fn of_units(units: &[UnitFacts], residency: Residency) -> Program {
    lower(&one_f_one_b(1, 1).unwrap(), units, &LowerOptions::zero_3(residency, 0)).unwrap()
}

/// What is replaced by what in the text of a program, each where it stands first.
type Edits<'a> = &'a [(&'a str, &'a str)];

fn edited(program: &Program, edits: Edits<'_>) -> Program {
    let text = edits.iter().fold(program.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from:?} in\n{text}");
        text.replacen(from, to, 1)
    });
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn rule_of(program: Program) -> Rule {
    CheckedProgram::new(program).expect_err("the rule is broken").rule
}

/// The rules that edits of programs break, a line each.
fn rules(cases: &[(Program, &[Edits<'_>])], expected: Expect) {
    let edited = cases.iter().flat_map(|(program, edits)| edits.iter().map(|edits| edited(program, edits)));
    expected.assert_eq(&edited.map(|program| rule_of(program).to_string() + "\n").collect::<String>());
}

fn message(program: Program, expected: Expect) {
    // Grids end lines without spaces; the messages are compared as printed.
    expected.assert_eq(&CheckedProgram::new(program).expect_err("the rule is broken").to_string());
}

/// Row 0 sends micro-batch 1 only after the backward of 0, for which row 1 first wants micro-batch 1.
fn deadlocked() -> Program {
    let one_at_a_time = order(&[0, 1], 2, &["0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1"]);
    let mut program = lowered(&gpipe(2, 2).unwrap(), 1, &LowerOptions::ZERO_0);
    program.rows[0] = lowered(&one_at_a_time, 1, &LowerOptions::ZERO_0).rows[0].clone();
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
    let program = one_f_one_b_program(2, 2, 1, LowerOptions::zero_3(Residency::Strict, 0));
    message(
        edited(&program, &[("  UNSHARD u1\n", "")]),
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
    message(
        edited(&one_f_one_b_program(2, 1, 1, LowerOptions::ZERO_1), &[("  SEND s0>s1 m0\n", "")]),
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
    let program = one_f_one_b_program(2, 2, 1, LowerOptions::zero_3(resident(2), 1));
    for num_rows in [0, 1] {
        let mut mutant = program.clone();
        mutant.rows.truncate(num_rows);
        assert_eq!(rule_of(mutant), Rule::NumRows { num_rows, num_ranks: 2 });
    }
    rules(
        &[(
            program,
            &[
                &[("micro-batches 2", "micro-batches 0")],
                &[("sharded units 2", "sharded units 1")],
                &[("gather-after-step no", "gather-after-step yes")],
                &[("scatter-every", "all-reduce-last")],
                &[("scatter-every", "scatter-last")],
                &[("training", "evaluation")],
                &[("micro-batches 2", "micro-batches 1")],
            ],
        )],
        expect![[r#"
            the step has 0 micro-batches; it needs at least 1
            1 resident units with a prefetch of 1: the unit in use and the prefetched ones count too; hold at least 2 or prefetch fewer
            gather after the step: only replicated weights with scattered gradients need it (ZeRO-1, ZeRO-2); switch it off
            all-reduced gradients with sharded weights: a rank that owns a part of the weights needs that part of the gradient; scatter it (last or every)
            `REDUCE u0 m0` does not belong to a program of this purpose and these options; change them or remove it
            `B u0 m0` does not belong to a program of this purpose and these options; change them or remove it
            `RECV s1>s0 m1` names a unit, micro-batch, tied pair or edge between ranks that the program does not have, or a gradient for a stage in front of all that is trained
        "#]],
    );
}

#[test]
fn a_claimed_size_costs_nothing() {
    let mut program = one_f_one_b_program(2, 2, 1, LowerOptions::ZERO_0);
    program.num_micro_batches = u32::MAX;
    assert_eq!(rule_of(program), Rule::Missing(instruction("F u0 m2")));
}

#[test]
fn instructions_name_what_exists() {
    let nowhere = [
        "F u2 m0",
        "F u0 m2",
        "UNSHARD u4294967295",
        "SEND s1>s2 m0",
        "SEND s4294967295>s4294967294 m0",
        "RECV s1>s0 m9",
        "ADD_TIED u0 u1",
    ];
    for instruction in nowhere.map(instruction) {
        let mut program = one_f_one_b_program(2, 2, 1, LowerOptions::ZERO_0);
        program.rows[0].insert(0, instruction);
        assert_eq!(rule_of(program), Rule::NotThere(instruction));
    }
}

#[test]
fn computes_and_messages_keep_their_order() {
    rules(
        &[
            (
                one_f_one_b_program(1, 2, 2, LowerOptions::ZERO_0),
                &[&[("GRAD_NORM", "I u1 m1\n  GRAD_NORM")], &[("GRAD_NORM", "W u1 m1\n  GRAD_NORM")]],
            ),
            (
                lowered(&zb_h1(2, 2).unwrap(), 1, &LowerOptions::ZERO_0),
                &[&[("  W u0 m0\n", ""), ("row p0\n", "row p0\n  W u0 m0\n")]],
            ),
            // Both ends of an edge.
            (
                lowered(&gpipe(2, 2).unwrap(), 1, &LowerOptions::ZERO_0),
                &[&[("  RECV s0>s1 m1\n", ""), ("RECV s0>s1 m0", "RECV s0>s1 m1\n  RECV s0>s1 m0")]],
            ),
            // Two stages on one rank.
            (
                lowered(&order(&[0, 0], 1, &["0F0 1F0 1B0 0B0"]), 1, &LowerOptions::ZERO_0),
                &[
                    &[("F u0 m0\n  F u1 m0", "F u1 m0\n  F u0 m0")],
                    &[("B u1 ", "B u2 "), ("B u0 ", "B u1 "), ("B u2 ", "B u0 ")],
                ],
            ),
        ],
        expect![[r#"
            unit 1 has a full backward of micro-batch 1 and one of its halves; keep `B`, or `I` and `W`
            unit 1 has a full backward of micro-batch 1 and one of its halves; keep `B`, or `I` and `W`
            `W u0 m0` runs before `I u0 m0`, which it needs
            micro-batch 1 is received over s0>s1 where micro-batch 0 is sent; both ends keep one order
            `F u1 m0` runs before `F u0 m0`, which it needs
            `B u0 m0` runs before `B u1 m0`, which it needs
        "#]],
    );
}

#[test]
fn copies_are_gathered_and_given_back_as_the_policy_says() {
    let unit = [UnitFacts::new(Stage(0), 64)];
    // Two copies of the large unit, where there is a large and a small buffer.
    let units = [256, 16].map(|num_bytes| UnitFacts::new(Stage(0), num_bytes));
    let one = CheckedProgram::new(of_units(&units, resident(1))).unwrap();
    assert_eq!(one.gather_buffers(PipelineRank(0)), [256]);
    rules(
        &[
            (
                of_units(&unit, Residency::Strict),
                &[
                    &[("strict", "all")],
                    &[("UNSHARD u0", "RESHARD u0\n  UNSHARD u0")],
                    &[("UNSHARD u0", "UNSHARD u0\n  UNSHARD u0")],
                ],
            ),
            (of_units(&unit, resident(1)), &[&[("units 1", "strict")]]),
            (
                of_units(&units, Residency::Strict),
                &[&[
                    ("prefetch 0", "prefetch 1"),
                    ("UNSHARD u0\n  REDUCE", "REDUCE"),
                    ("F u0", "UNSHARD u0\n  F u0"),
                ]],
            ),
            // Persistent units are not gathered in the step but after it.
            (
                of_units(&[UnitFacts { sharding: UnitSharding::Persistent, ..unit[0] }], Residency::Strict),
                &[&[("row p0\n", "row p0\n  UNSHARD u0\n")], &[("  GATHER_STEP u0\n", "")]],
            ),
        ],
        expect![[r#"
            unit 0 is gathered a second time where every unit stays until its last use; drop the gather and the reshard before it
            `RESHARD u0` gives back a unit that is not gathered; drop it
            2 gathered units are held here, 1 are allowed; reshard one first, or allow more
            `B u0 m0` reads a copy of unit 0 that another use has read; strict residency gathers for every use: `RESHARD u0` and `UNSHARD u0` before it
            no gather buffer is free for the 256 bytes of unit 0: copies of 256 bytes lie in the buffers of 272 bytes in all; reshard one first, gather in another order, or allow more
            `UNSHARD u0` does not belong to a program of this purpose and these options; change them or remove it
            the row ends where `GATHER_STEP u0` is due in the tail of the step
        "#]],
    );
}

/// Each of these edits leaves a row that some executor could run, with more memory than the plan counts.
#[test]
fn nothing_is_held_longer_than_the_plan_counts() {
    let units = [UnitFacts::new(Stage(0), 64); 3];
    rules(
        &[
            (
                of_units(&units[..2], resident(2)),
                &[&[("  RESHARD u1\n", ""), ("B u0 m0", "B u0 m0\n  RESHARD u1")]],
            ),
            // A third unreduced gradient.
            (
                of_units(&units, resident(3)),
                &[&[
                    ("  REDUCE u2 m0\n", ""),
                    ("  REDUCE u1 m0\n", ""),
                    ("B u0 m0", "B u0 m0\n  REDUCE u2 m0\n  REDUCE u1 m0"),
                ]],
            ),
            // The weight gradients of a stage, whose inputs lie in one buffer until the last.
            (
                lowered(&zb_h1(2, 2).unwrap(), 2, &LowerOptions::ZERO_0),
                &[&[("W u1 m0", "W u9 m0"), ("W u0 m0", "W u1 m0"), ("W u9 m0", "W u0 m0")]],
            ),
        ],
        expect![[r#"
            unit 1 is held past the last use of this copy at step 4; `RESHARD u1` right after it
            `B u0 m0` fills a buffer that is in use until `REDUCE u2 m0`, which comes later
            `W u0 m0` runs before `W u1 m0`, which it needs
        "#]],
    );
}

/// Two units that recompute, one micro-batch: ... R u1, B u1, REDUCE u1, R u0, B u0, ...
#[test]
fn a_recompute_and_its_backward_stand_together() {
    let recomputes = UnitFacts { recomputes: true, ..UnitFacts::new(Stage(0), 64) };
    rules(
        &[(
            of_units(&[recomputes; 2], resident(2)),
            &[
                // There is one buffer for what is recomputed.
                &[("  R u0 m0\n", ""), ("B u1 m0", "R u0 m0\n  B u1 m0")],
                &[("R u1 m0\n  B u1 m0", "B u1 m0\n  R u1 m0")],
                &[("  R u1 m0\n", ""), ("F u1 m0", "R u1 m0\n  F u1 m0")],
                &[("  R u0 m0\n", "")],
                &[("R u1 m0\n  B u1 m0", "I u1 m0\n  W u1 m0")],
                // They are one use of the weights.
                &[("B u1 m0", "RESHARD u1\n  UNSHARD u1\n  B u1 m0")],
            ],
        )],
        expect![[r#"
            `R u0 m0` comes between the units of a stage, which run together; `B u1 m0` is due
            `B u1 m0` runs before `R u1 m0`, which it needs
            `R u1 m0` runs before `F u1 m0`, which it needs
            `R u0 m0` is missing; a step has it exactly once
            `I u1 m0` is half a backward of a unit that recomputes its activations, which are kept for a full `B` only; use that, or do not recompute
            unit 1 is given back between a recompute and `B u1 m0`, which are one use of its weights; `RESHARD u1` after both
        "#]],
    );
}

#[test]
fn nothing_else_is_in_a_program_or_follows_its_tail() {
    rules(
        &[(
            one_f_one_b_program(1, 1, 2, LowerOptions::ZERO_0),
            &[
                &[("B u1 m0", "R u1 m0\n  B u1 m0")],
                &[("end\n", "  GRAD_NORM\nend\n")],
                &[("  GRAD_NORM\n  STEP u0\n  STEP u1\n", "")],
            ],
        )],
        expect![[r#"
            `R u1 m0` does not belong to a program of this purpose and these options; change them or remove it
            the step is over, but `GRAD_NORM` follows its tail; drop it
            the row ends where `GRAD_NORM` is due in the tail of the step
        "#]],
    );
}
