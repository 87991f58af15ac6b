//! Grids of timelines, as they are printed.

use std::string::String;

use expect_test::expect;

use super::time_grid;
use crate::generate::{SizeError, interleaved, one_f_one_b, zb_h1};
use crate::options::LowerOptions;
use crate::order::ComputeOrder;
use crate::render::TimeScale;
use crate::simulate::{Costs, MessageCost, UnitCosts, simulate};
use crate::testing::{checked, generated_programs, uneven_costs};

fn grid(order: Result<ComputeOrder, SizeError>, hop: u64, width: usize) -> String {
    let program = checked(&order.unwrap(), 2, &LowerOptions::ZERO_0);
    let unit = UnitCosts { optimizer_step: 4, ..UnitCosts::of_compute(6, 6, 6) };
    let costs = Costs::uniform(&program, unit, MessageCost::of_link(0, hop));
    let timeline = simulate(&program, &costs).unwrap();
    time_grid(&program, &timeline, width, TimeScale::parts(12))
}

#[test]
fn time_runs_to_the_right_in_proportion() {
    let grids =
        [grid(one_f_one_b(3, 4), 0, 100), grid(zb_h1(3, 6), 6, 100), grid(interleaved(2, 2, 2, 2), 3, 100)];
    expect![[r#"
        rank 0  F0---F1---F2---....................B0-------F3---B1--------.....B2--------.....B3--------S--
        rank 1  .....F0---F1---..........B0--------F2--B1--------F3---B2--------.....B3--------..........S--
        rank 2  ..........F0---B0--------F1---B1-------F2---B2--------F3---B3--------....................S--
                |0                       |5                      |10                      |15
        rank 0  F0--F1-F2--...............I0--W0--F3-I1--W1--F4-I2--W2--F5--I3-W3--....I4--W4-....I5--W5--S-
        rank 1  ......F0-F1--........I0-F2--I1--W0-....F3--I2--W1-F4--I3--W2--F5-I4--W3--...I5--W4--W5--..S-
        rank 2  ...........F0--I0--F1-I1--....F2--I2-W0--....F3-I3--W1--F4--I4-W2--F5--I5--W3-W4--W5--....S-
                |0                 |5                |10                |15                |20
        rank 0  0F0--0F1--...2F0--2F1--.............2B0-------......2B1-------0B0-------...0B1-------0S--2S-
        rank 1  ......1F0---1F1--..3F0---3B0-------3F1--3B1-------1B0--------..1B1--------...........1S--3S-
                |0        |2         |4        |6        |8         |10       |12       |14        |16
    "#]]
    .assert_eq(&grids.concat());
}

#[test]
fn narrow_grids_keep_letters_and_lose_what_is_thin() {
    expect![[r#"
        rank 0  FFF2....B0-FB1.B2-.B3S
        rank 1  .FF1..B0FB1-FB2..B3..S
        rank 2  ..F0B0FB1F2B2FB3-....S
                |0          |10
        rank 0  F
        rank 1  B
        rank 2  B

    "#]]
    .assert_eq(&[30, 0].map(|width| grid(one_f_one_b(3, 4), 0, width)).concat());
}

#[test]
fn a_width_beyond_all_screens_is_cut() {
    let program = checked(&one_f_one_b(2, 1).unwrap(), 1, &LowerOptions::ZERO_0);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let printed = time_grid(&program, &timeline, usize::MAX, TimeScale::parts(1));
    assert!(printed.lines().all(|line| line.len() <= 100_000 + "rank 0  ".len()));
    assert_eq!(printed.lines().count(), 3);
}

/// A column is idle or busy as most of it is, so no line is off by more than a column for each of its gaps.
#[test]
fn idle_columns_are_idle_time() {
    let mut num_idle = 0;
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(7) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        // Every column is a moment, so nothing is rounded.
        let width = timeline.makespan() as usize + "rank 0  ".len();
        let printed = time_grid(&program, &timeline, width, TimeScale::parts(1));
        for (rank, line) in program.ranks().zip(printed.lines()) {
            assert_eq!(line.len(), width);
            let idle = line["rank 0  ".len()..].matches('.').count() as u64;
            assert_eq!(idle, timeline.makespan() - timeline.busy(&program, rank), "{printed}");
            num_idle += idle;
        }
    }
    assert!(num_idle > 1000, "{num_idle}");
}
