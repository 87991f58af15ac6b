//! Pictures, as they are printed.

use alloc::string::ToString;
use alloc::vec;

use expect_test::expect;

use super::{computes, instructions, order, program};
use crate::check::CheckedProgram;
use crate::generate::{
    bfs, eager_1f1b, forward_only, forward_only_on, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::testing::{checked, lowered, resident, units};

#[test]
fn a_program_shows_its_gathers_and_reductions() {
    let options = LowerOptions::zero_3(resident(2), 1);
    let small = checked(&one_f_one_b(2, 3).unwrap(), 3, &options);
    expect![[r#"
        rank 0    F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2
          gather  4  2        1     1  2        2
          reduce              2        3        4
        rank 1    .. F0 B0 B0 F1 B1 B1 F2 B2 B2 .. ..
          gather     3  1     1  1     1  1
          reduce        2        3        4
    "#]]
    .assert_eq(&program(&small, 100));
}

#[test]
fn backwards_that_do_nothing_are_left_out() {
    for order in [one_f_one_b(3, 3).unwrap(), interleaved(2, 2, 4, 2).unwrap(), zb_h1(2, 3).unwrap()] {
        let program = checked(&order, 2, &LowerOptions::ZERO_1);
        assert_eq!(computes(&program, 200), super::order(&order, 200));
    }
    let mut units = units(3, 1, false);
    (units[0].is_frozen, units[1].is_frozen) = (true, true);
    let options = LowerOptions::zero_3(resident(1), 0);
    let front = lower(&one_f_one_b(3, 4).unwrap(), &units, &options).unwrap();
    let front = CheckedProgram::new(front).unwrap();
    expect![[r#"
        rank 0    F0 F1 F2 F3 .. .. .. .. .. .. .. .. .. ..
          gather  1
        rank 1    .. F0 F1 F2 F3 .. .. .. .. .. .. .. .. ..
          gather     1
        rank 2    .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3
          gather        1
          reduce                    1        1        2
    "#]]
    .assert_eq(&program(&front, 100));
}

#[test]
fn a_wide_grid_loses_its_middle_alone() {
    let wide = order(&one_f_one_b(2, 40).unwrap(), 60);
    expect![[r#"
        rank 0  F0  F1  ..  ..  B0  B0  ~   F39 B38 B38 ..  B39 B39
        rank 1  ..  F0  B0  B0  F1  B1  ~   B38 F39 B39 B39 ..  ..
    "#]]
    .assert_eq(&wide);
    assert!(wide.lines().all(|line| line.len() <= 60));
}

#[test]
fn an_instruction_list_shows_lanes_and_waits() {
    let options = LowerOptions::ZERO_1;
    let program = lower(&one_f_one_b(2, 1).unwrap(), &units(2, 1, true), &options).unwrap();
    let program = CheckedProgram::new(program).unwrap();
    expect![[r#"
        0  s0>s1    RECV s0>s1 m0   after 2 of rank 0
        1  compute  F u1 m0         after 0
        2  compute  B u1 m0
        3  s1>s0    SEND s1>s0 m0   after 2
        4  reduce   REDUCE_LAST u1  after 2
        5  compute  ADD_TIED u0 u1  after 4
        6  compute  GRAD_NORM       after 4
        7  compute  STEP u1
        8  gather   GATHER_STEP u1  after 7
    "#]]
    .assert_eq(&instructions(&program, PipelineRank(1)));
}

#[test]
fn what_can_never_start_is_marked() {
    let action = |kind, stage| StageAction { kind, stage: Stage(stage), micro_batch: MicroBatch(0) };
    let stuck = ComputeOrder {
        placement: Placement::linear(2).unwrap(),
        num_micro_batches: 1,
        rows: vec![
            vec![action(ComputeKind::Backward, 0), action(ComputeKind::Forward, 0)],
            vec![action(ComputeKind::Forward, 1)],
        ],
    };
    expect![[r#"
        rank 0  B0?
        rank 1  F0?
    "#]]
    .assert_eq(&order(&stuck, 80));
}

/// The page that users read shows what is printed, not what once was.
#[test]
fn the_page_of_schedules_shows_these_pictures() {
    // Pictures are code blocks, indented by four.
    let page = include_str!("../../../docs/schedules.md").replace("\n    ", "\n");
    let shows = |text: &str| assert!(page.contains(text), "docs/schedules.md lacks\n{text}");
    shows(&order(&one_f_one_b(3, 4).unwrap(), 80));
    shows(&order(&gpipe(3, 4).unwrap(), 80));
    shows(&order(&forward_only(3, 4).unwrap(), 80));
    shows(&order(&eager_1f1b(3, 4).unwrap(), 80));
    shows(&order(&interleaved(2, 2, 4, 2).unwrap(), 120));
    shows(&order(&bfs(2, 2, 4).unwrap(), 120));
    shows(&order(&forward_only_on(&Placement::looped(2, 2).unwrap(), 4).unwrap(), 80));
    shows(&order(&zb_h1(3, 6).unwrap(), 120));
    shows(&order(&zb_h2(3, 6).unwrap(), 120));
    shows(&order(&zb_v(2, 4).unwrap(), 160));
    let folded = Placement::new([0, 1, 1, 0].map(PipelineRank).to_vec()).unwrap();
    shows(&order(&forward_only_on(&folded, 3).unwrap(), 80));
    shows(&ComputeOrder::from_csv("0F0,0I0\n").unwrap_err().to_string());
    let csv = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n";
    shows(csv);
    assert_eq!(ComputeOrder::from_csv(csv), Ok(one_f_one_b(2, 2).unwrap()));
    let strict = LowerOptions::zero_3(Residency::Strict, 0);
    for options in [strict.clone(), LowerOptions::zero_3(resident(2), 1)] {
        let lowered = lowered(&one_f_one_b(2, 3).unwrap(), 3, &options);
        shows(&program(&CheckedProgram::new(lowered).unwrap(), 80));
    }
    let options = LowerOptions::zero_3(resident(2), 1);
    let tied = lower(&one_f_one_b(2, 1).unwrap(), &units(2, 1, true), &options).unwrap();
    shows(&tied.to_string());
    let mut broken = lowered(&one_f_one_b(2, 2).unwrap(), 1, &strict);
    let gather =
        broken.rows[1].iter().position(|of| matches!(of, crate::Instruction::Unshard { .. })).unwrap();
    broken.rows[1].remove(gather);
    shows(&CheckedProgram::new(broken).unwrap_err().to_string());
    let checked = CheckedProgram::new(tied).unwrap();
    shows(&instructions(&checked, PipelineRank(0)));
}
