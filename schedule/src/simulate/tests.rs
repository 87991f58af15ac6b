//! The simulator against closed forms, and its parts against each other.

use std::vec::Vec;

use super::*;
use crate::check::CheckedProgram;
use crate::closed_form::{
    StageTimes, bfs_makespan, eager_1f1b_makespan, gpipe_makespan, interleaved_makespan, one_f_one_b_makespan,
};
use crate::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b};
use crate::id::PipelineRank;
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::order::ComputeOrder;
use crate::testing::{resident, units};

fn program(order: &ComputeOrder, per_stage: u32, options: &LowerOptions) -> CheckedProgram {
    let units = units(order.placement.num_stages() as u32, per_stage, false);
    CheckedProgram::new(lower(order, &units, options).unwrap()).unwrap()
}

/// A stage is one unit that takes these times, and a message a hop.
fn makespan(order: &ComputeOrder, times: StageTimes) -> u64 {
    let program = program(order, 1, &LowerOptions::ZERO_1);
    let unit = UnitCosts::of_compute(times.forward, times.backward, 0);
    let hop = Passage { occupied: 0, latency: times.hop };
    simulate(&program, &Costs::uniform(&program, unit, hop)).unwrap().makespan()
}

#[test]
fn closed_forms_hold_exactly() {
    let all_times = [(3, 5), (5, 3), (4, 4), (2, 9)]
        .into_iter()
        .flat_map(|(forward, backward)| (0..=6).map(move |hop| StageTimes { forward, backward, hop }));
    let mut num_held = [0; 5];
    for (times, p, m) in all_times.flat_map(|of| (1..=5).flat_map(move |p| (1..=12).map(move |m| (of, p, m))))
    {
        let mut hold = |schedule: usize, form: Option<u64>, order: ComputeOrder| {
            if let Some(form) = form {
                assert_eq!(makespan(&order, times), form, "schedule {schedule}, p {p}, m {m}, {times:?}");
                num_held[schedule] += 1;
            }
        };
        hold(0, gpipe_makespan(p, m, times), gpipe(p, m).unwrap());
        hold(1, one_f_one_b_makespan(p, m, times), one_f_one_b(p, m).unwrap());
        hold(2, eager_1f1b_makespan(p, m, times), eager_1f1b(p, m).unwrap());
        for v in 2..=4 {
            hold(3, interleaved_makespan(p, v, m, times), interleaved(p, v, m, p).unwrap());
            hold(4, bfs_makespan(p, v, m, times), bfs(p, v, m).unwrap());
        }
    }
    assert!(num_held.iter().all(|&num_held| num_held > 300), "{num_held:?}");
}

#[test]
fn busy_and_bubble_add_up_to_the_makespan() {
    for residency in [Residency::Strict, resident(2), Residency::All] {
        let program = program(&one_f_one_b(3, 5).unwrap(), 3, &LowerOptions::zero_3(residency, 1));
        let unit = UnitCosts {
            gather: Passage { occupied: 4, latency: 1 },
            reduce: Passage { occupied: 9, latency: 2 },
            optimizer_step: 3,
            ..UnitCosts::of_compute(5, 4, 6)
        };
        for links in [Links::Own, Links::SharedByCollectives] {
            let mut costs = Costs::uniform(&program, unit, Passage { occupied: 2, latency: 3 });
            (costs.links, costs.gradient_norm) = (links, 7);
            let timeline = simulate(&program, &costs).unwrap();
            for rank in (0..3).map(PipelineRank) {
                let (busy, bubble) = (timeline.busy(&program, rank), timeline.bubble(&program, rank));
                assert_eq!(busy + bubble.total(), timeline.makespan(), "{bubble:?}");
                assert_eq!(busy, 3 * (5 * (5 + 10) + 3));
            }
        }
    }
}

#[test]
fn costs_of_another_program_are_errors() {
    let program = program(&one_f_one_b(2, 2).unwrap(), 2, &LowerOptions::ZERO_1);
    let of = |costs: Costs| simulate(&program, &costs).unwrap_err();
    let fit = Costs::uniform(&program, UnitCosts::default(), Passage::default());
    let few_units = Costs { units: Vec::new(), ..fit.clone() };
    assert_eq!(of(few_units), CostsError::NumUnits { num_units: 0, expected: 4 });
    let few_edges = Costs { edges: Vec::new(), ..fit.clone() };
    assert_eq!(of(few_edges), CostsError::NumEdges { num_edges: 0, expected: 2 });
    let unit = UnitCosts::of_compute(u64::MAX / 16, 0, 0);
    let long = Costs::uniform(&program, unit, Passage::default());
    assert!(simulate(&program, &long).is_ok(), "8 forwards fit");
    let long = Costs { gradient_norm: u64::MAX / 2, add_tied: 0, ..long };
    assert!(matches!(of(long), CostsError::TooLong { .. }));
}

mod zero_bubble {
    use super::*;
    use crate::generate::{zb_h1, zb_h2, zb_v};

    /// Longest rank's span and makespan, per whole rank.
    fn played(order: &ComputeOrder, per_stage: [u64; 3], hop: u64) -> (u64, u64) {
        let program = program(order, 1, &LowerOptions::ZERO_1);
        let [forward, input, weight] = per_stage;
        let costs = Costs::uniform(
            &program,
            UnitCosts::of_compute(forward, input, weight),
            Passage { occupied: 0, latency: hop },
        );
        let timeline = simulate(&program, &costs).unwrap();
        (timeline.longest_rank_span(&program), timeline.makespan())
    }

    #[test]
    fn the_worked_numbers() {
        assert_eq!(played(&zb_h1(4, 8).unwrap(), [1, 1, 1], 0).1, 27);
        assert_eq!(played(&zb_h1(4, 8).unwrap(), [1, 1, 1], 1).1, 41);
        assert_eq!(played(&zb_h2(4, 8).unwrap(), [1, 1, 1], 0), (24, 27));
        assert_eq!(played(&zb_h1(8, 32).unwrap(), [1, 1, 1], 0).1, 103);
        assert_eq!(played(&zb_h2(8, 32).unwrap(), [1, 1, 1], 0), (96, 103));
        // Two stages per rank: in halves.
        assert_eq!(played(&zb_v(4, 8).unwrap(), [1, 1, 1], 0), (48, 51));
    }

    #[test]
    fn profiled() {
        let rate = |p: u32, m: u32, t: [u64; 3], hop: u64, order: ComputeOrder, v: u64| {
            let ideal = u64::from(m) * (t[0] + t[1] + t[2]);
            let (span, _) = played(&order, t.map(|t| t / v), hop);
            1.0 - ideal as f64 / span as f64
        };
        let a = [18522, 18086, 9337];
        std::println!("{:.4} .2431", rate(8, 24, a, 601, one_f_one_b(8, 24).unwrap(), 1));
        std::println!("{:.4} .1585", rate(8, 24, a, 601, zb_h1(8, 24).unwrap(), 1));
        std::println!("{:.4} .1083", rate(8, 24, a, 601, zb_h2(8, 24).unwrap(), 1));
        let b = [28814, 28760, 19352];
        std::println!("{:.4} .2668", rate(16, 48, b, 1610, one_f_one_b(16, 48).unwrap(), 1));
        std::println!("{:.4} .1536", rate(16, 48, b, 1610, zb_h1(16, 48).unwrap(), 1));
        std::println!("{:.4} .0823", rate(16, 48, b, 1610, zb_h2(16, 48).unwrap(), 1));
        std::println!("{:.4} .0697", rate(16, 48, b, 1610, zb_v(16, 48).unwrap(), 2));
    }
}
