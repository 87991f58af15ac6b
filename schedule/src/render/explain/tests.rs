//! Critical paths, as they are printed.

use std::vec::Vec;

use expect_test::expect;

use super::explain;
use crate::check::CheckedProgram;
use crate::generate::{gpipe, one_f_one_b};
use crate::options::{LowerOptions, Residency};
use crate::render::TimeScale;
use crate::simulate::{Costs, MessageCost, UnitCosts, critical_path, simulate};
use crate::testing::{checked, generated_programs, uneven_costs};

fn text(program: &CheckedProgram, costs: &Costs) -> std::string::String {
    let timeline = simulate(program, costs).unwrap();
    explain(program, &critical_path(program, costs, &timeline), TimeScale::parts(1))
}

#[test]
fn a_short_path_has_a_line_for_each_part() {
    let program = checked(&one_f_one_b(2, 1).unwrap(), 1, &LowerOptions::ZERO_1);
    let unit = UnitCosts {
        reduce: MessageCost { issue: 1, occupied: 20, latency: 5, landing: 2 },
        reduce_last: MessageCost { issue: 1, occupied: 20, latency: 5, landing: 2 },
        optimizer_step: 3,
        gather_after_step: MessageCost::of_link(6, 0),
        ..UnitCosts::of_compute(10, 15, 5)
    };
    let costs = Costs::uniform(&program, unit, MessageCost { issue: 1, occupied: 2, latency: 3, landing: 1 });
    expect![[r#"
        critical path, 113: backward 35.4 %, reduce 22.1 %, forward 17.7 %, transfer 8.8 %, own time for messages 8.0 %, gather 5.3 %, optimizer 2.7 %
              0  +1   rank 0  before F u0 m0         the rank handled messages
              1  +10  rank 0  F u0 m0                the step begins
             11  +1   rank 0  before SEND s0>s1 m0   the rank handled messages
             12  +5   rank 1  RECV s0>s1 m0          the other end was ready
             17  +1   rank 1  before F u1 m0         the rank handled messages
             18  +10  rank 1  F u1 m0                its message had arrived
             28  +20  rank 1  B u1 m0                the compute lane was free
             48  +1   rank 1  before SEND s1>s0 m0   the rank handled messages
             49  +5   rank 0  RECV s1>s0 m0          the other end was ready
             54  +1   rank 0  before B u0 m0         the rank handled messages
             55  +20  rank 0  B u0 m0                its message had arrived
             75  +1   rank 0  before REDUCE_LAST u0  the rank handled messages
             76  +25  rank 0  REDUCE_LAST u0         what it needs had ended
            101  +2   rank 0  before GRAD_NORM       the rank handled messages
            103  +3   rank 0  STEP u0                the compute lane was free
            106  +6   rank 0  GATHER_STEP u0         what it needs had ended
            112  +1   rank 0  at the end             the rank handled messages
    "#]].assert_eq(&text(&program, &costs));
}

#[test]
fn what_repeats_is_written_once() {
    let options = LowerOptions::zero_3(Residency::Strict, 1);
    let program = checked(&one_f_one_b(2, 12).unwrap(), 1, &options);
    let unit = UnitCosts { gather: MessageCost::of_link(4, 1), ..UnitCosts::of_compute(10, 10, 10) };
    let printed = text(&program, &Costs::uniform(&program, unit, MessageCost::of_link(2, 3)));
    expect![[r#"
        critical path, 520: backward 50.0 %, forward 25.0 %, gather 13.5 %, transfer 11.5 %
              0  +5   rank 0  UNSHARD u0      the step begins
              5  +10  rank 0  F u0 m0         what it needs had ended
             15  +5   rank 1  RECV s0>s1 m0   the other end was ready
             20  +10  rank 1  F u1 m0         its message had arrived
             30  +5   rank 1  UNSHARD u1      what it needs had ended
             35  +20  rank 1  B u1 m0         what it needs had ended
             55  +5   rank 1  UNSHARD u1      what it needs had ended
             60  +10  rank 1  F u1 m1         what it needs had ended
        5 times until 470, with other micro-batches:
          |  70  +5   rank 1  UNSHARD u1      what it needs had ended
          |  75  +20  rank 1  B u1 m1         what it needs had ended
          |  95  +5   rank 0  RECV s1>s0 m1   the other end was ready
          | 100  +20  rank 0  B u0 m1         its message had arrived
          | 120  +5   rank 0  UNSHARD u0      what it needs had ended
          | 125  +10  rank 0  F u0 m3         what it needs had ended
          | 135  +5   rank 1  RECV s0>s1 m3   the other end was ready
          | 140  +10  rank 1  F u1 m3         its message had arrived
            470  +5   rank 1  UNSHARD u1      what it needs had ended
            475  +20  rank 1  B u1 m11        what it needs had ended
            495  +5   rank 0  RECV s1>s0 m11  the other end was ready
            500  +20  rank 0  B u0 m11        its message had arrived
    "#]]
    .assert_eq(&printed);
}

#[test]
fn a_ramp_up_the_ranks_is_written_once() {
    let program = checked(&gpipe(8, 2).unwrap(), 2, &LowerOptions::ZERO_1);
    let costs = Costs::uniform(&program, UnitCosts::of_compute(10, 10, 10), MessageCost::of_link(2, 3));
    expect![[r#"
        critical path, 610: backward 59.0 %, forward 29.5 %, transfer 11.5 %
              0  +20  rank 0  F u0..u1 m0    the step begins
        7 times until 195, up the ranks:
          |  20  +5   rank 1  RECV s0>s1 m0  the other end was ready
          |  25  +20  rank 1  F u2..u3 m0    its message had arrived
            195  +20  rank 7  F u14..u15 m1  the compute lane was free
            215  +40  rank 7  B u15..u14 m0  the compute lane was free
        7 times until 570, down the ranks:
          | 255  +5   rank 6  RECV s7>s6 m0  the other end was ready
          | 260  +40  rank 6  B u13..u12 m0  its message had arrived
            570  +40  rank 0  B u1..u0 m1    the compute lane was free
    "#]]
    .assert_eq(&text(&program, &costs));
}

/// Nothing is lost by writing stretches once: the lines and the repetitions cover the whole path.
#[test]
fn lines_cover_the_path_without_gaps() {
    let mut num_headings = 0;
    for (seed, program) in generated_programs().into_iter().enumerate() {
        let costs = uneven_costs(&program, seed as u64);
        let timeline = simulate(&program, &costs).unwrap();
        let path = critical_path(&program, &costs, &timeline);
        let printed = explain(&program, &path, TimeScale::parts(1));
        // A stretch that is being read: since when, how often it comes, and until when.
        let (mut stretch, mut now) = (None, 0);
        let go_on = |stretch: &mut Option<(u64, u64, u64)>, now: u64| match stretch.take() {
            Some((start, times, until)) => {
                assert_eq!(start + times * (now - start), until, "{printed}");
                until
            }
            None => now,
        };
        for line in printed.lines().skip(1) {
            let columns: Vec<&str> = line.trim_start_matches([' ', '|']).split_whitespace().collect();
            let number = |column: usize| columns[column].trim_matches([',', '+']).parse::<u64>().unwrap();
            if !line.starts_with("  | ") {
                now = go_on(&mut stretch, now);
            }
            if columns[1] == "times" {
                stretch = Some((now, number(0), number(3)));
                num_headings += 1;
                continue;
            }
            assert_eq!(number(0), now, "{printed}");
            now += number(1);
        }
        assert_eq!(go_on(&mut stretch, now), timeline.makespan(), "{printed}");
    }
    assert!(num_headings > 50, "{num_headings}");
}
