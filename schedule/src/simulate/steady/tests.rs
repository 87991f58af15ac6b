//! Extended steps against the same steps played in full.

use std::vec;
use std::vec::Vec;

use super::super::{Links, Passage, RankTimes, UnitCosts, study, study_long};
use super::*;
use crate::generate::{bfs, eager_1f1b, forward_only, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};
use crate::lower::lower;
use crate::options::{LowerOptions, Reduction, Residency, Weights};
use crate::order::ComputeOrder;
use crate::testing::{mixed_units, resident, units};

type Generate = fn(u32, u32) -> ComputeOrder;

/// Every schedule, by ranks and micro-batches; those of several stages with two and three, and groups of several lengths.
const SCHEDULES: [(&str, Generate); 13] = [
    ("gpipe", |p, m| gpipe(p, m).unwrap()),
    ("1f1b", |p, m| one_f_one_b(p, m).unwrap()),
    ("eager-1f1b", |p, m| eager_1f1b(p, m).unwrap()),
    ("forward-only", |p, m| forward_only(p, m).unwrap()),
    ("interleaved v 2", |p, m| interleaved(p, 2, m, p).unwrap()),
    ("interleaved v 3", |p, m| interleaved(p, 3, m, p).unwrap()),
    ("interleaved N p + 1", |p, m| interleaved(p, 2, m, p + 1).unwrap()),
    ("interleaved N 2 p", |p, m| interleaved(p, 2, m, 2 * p).unwrap()),
    ("bfs v 2", |p, m| bfs(p, 2, m).unwrap()),
    ("bfs v 3", |p, m| bfs(p, 3, m).unwrap()),
    ("zb-h1", |p, m| zb_h1(p, m).unwrap()),
    ("zb-h2", |p, m| zb_h2(p, m).unwrap()),
    ("zb-v", |p, m| zb_v(p, m).unwrap()),
];

fn program(order: &ComputeOrder, per_stage: u32, options: &LowerOptions) -> CheckedProgram {
    let units = units(order.placement.num_stages() as u32, per_stage, false);
    CheckedProgram::new(lower(order, &units, options).unwrap()).unwrap()
}

/// Asserts that a step is told right whether it is played in full or extended, and says which.
fn is_extended(make: impl Fn(u32) -> CheckedProgram, costs: &Costs, m: u32, name: &str) -> bool {
    let long = simulate_long(|of| Ok::<_, CostsError>(make(of)), costs, m).unwrap();
    let full = Played::new(make(m), costs).unwrap();
    assert_eq!(long.makespan(), full.timeline.makespan(), "{name}, m {m}");
    assert_eq!(long.longest_rank_span(), full.timeline.longest_rank_span(&full.program), "{name}, m {m}");
    for rank in (0..full.program.num_ranks() as u32).map(PipelineRank) {
        assert_eq!(long.rank_span(rank), full.timeline.rank_span(&full.program, rank), "{name}, m {m}");
        assert_eq!(long.busy(rank), full.timeline.busy(&full.program, rank), "{name}, m {m}");
        assert_eq!(long.bubble(rank), full.timeline.bubble(&full.program, rank), "{name}, m {m}");
    }
    long.steady.is_some()
}

#[test]
fn every_schedule_is_extended_to_what_playing_it_gives() {
    for (name, generate) in SCHEDULES {
        let (mut num_steps, mut num_extended) = (0, 0);
        for (p, of_compute) in (1..=4).flat_map(|p| [(p, [3, 3, 3]), (p, [5, 4, 2]), (p, [2, 7, 0])]) {
            for (hop, m) in [0, 1, 4].into_iter().flat_map(|hop| [37, 128, 131].map(|m| (hop, m))) {
                let make = |of| program(&generate(p, of), 1, &LowerOptions::ZERO_1);
                let [forward, input, weight] = of_compute;
                let unit = UnitCosts::of_compute(forward, input, weight);
                let hop = Passage { latency: hop, ..Passage::default() };
                num_steps += 1;
                num_extended += u32::from(is_extended(make, &Costs::uniform(&make(1), unit, hop), m, name));
            }
        }
        std::println!("{name}: {num_extended} of {num_steps}");
    }
}

#[test]
fn explore() {
    for (name, generate) in SCHEDULES {
        for (p, m) in [(2, 1000), (4, 1000), (8, 2000)] {
            let mut line = std::string::String::new();
            for [forward, input, weight] in [[3, 3, 3], [5, 4, 2], [2, 7, 0]] {
                for hop in [0, 1, 4] {
                    let make = |of| program(&generate(p, of), 1, &LowerOptions::ZERO_1);
                    let unit = UnitCosts::of_compute(forward, input, weight);
                    let hop = Passage { latency: hop, ..Passage::default() };
                    let costs = Costs::uniform(&make(1), unit, hop);
                    let long = simulate_long(|of| Ok::<_, CostsError>(make(of)), &costs, m).unwrap();
                    let size = long.played.program.num_micro_batches();
                    line += &match &long.steady {
                        None => "- ".into(),
                        Some(s) => std::format!("{:.1}({}) ", f64::from(size) / f64::from(p), s.period),
                    };
                }
            }
            std::println!("{name} p {p}: {line}");
        }
    }
}
