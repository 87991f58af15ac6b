//! Paths without gaps, which are never longer than the step whatever instructions cost.

use std::collections::BTreeSet;

use super::{CriticalPath, PathStep, Spent, Why, critical_path};
use crate::check::CheckedProgram;
use crate::generate::{gpipe, one_f_one_b};
use crate::id::PipelineRank;
use crate::instruction::{Activity, Instruction, Lane};
use crate::options::{LowerOptions, Residency};
use crate::simulate::cluster::{self, Cluster, Ratio};
use crate::simulate::{Costs, MessageCost, Span, Timeline, UnitCosts, simulate};
use crate::testing::{Random, checked, generated_programs, uneven_costs};

fn played(program: &CheckedProgram, costs: &Costs) -> (Timeline, CriticalPath) {
    let timeline = simulate(program, costs).unwrap();
    let path = critical_path(program, costs, &timeline);
    (timeline, path)
}

#[test]
fn parts_have_no_gaps_and_add_up_to_the_makespan() {
    let mut reasons = BTreeSet::new();
    for (seed, program) in generated_programs().into_iter().enumerate() {
        for costs in [uneven_costs(&program, seed as u64), with_own_time(&program, seed as u64)] {
            let (timeline, path) = played(&program, &costs);
            let mut until = 0;
            for step in path.steps() {
                assert_eq!(step.start, until);
                assert!(step.end > step.start);
                assert!(step.why != Why::Handling || costs.hold_ranks(), "all is explained: {step:?}");
                assert!(step.why != Why::DataRanks, "one data rank stands for all: {step:?}");
                let lane = program.row(step.rank).get(step.index).map(|of| of.lane());
                assert!(step.why != Why::ComputeLane || lane == Some(Lane::Compute), "{step:?}");
                assert!(step.why != Why::Row || lane != Some(Lane::Compute), "{step:?}");
                until = step.end;
                reasons.insert(step.why);
            }
            assert_eq!(until, timeline.makespan());
            let summary = path.summary(&program);
            assert_eq!(summary.iter().map(|(_, time)| time).sum::<u64>(), timeline.makespan());
            assert!(summary.is_sorted_by(|a, b| a.1 >= b.1));
        }
    }
    assert_eq!(reasons.len(), 9, "{reasons:?}");
}

/// Uneven costs, and messages that take of their ranks' own time.
fn with_own_time(program: &CheckedProgram, seed: u64) -> Costs {
    let mut costs = uneven_costs(program, seed);
    let mut random = Random(seed + 17);
    let mut below = |bound| random.below(bound) as u64;
    let of_units = costs.units.iter_mut().flat_map(|unit| {
        [&mut unit.gather, &mut unit.reduce, &mut unit.reduce_last, &mut unit.gather_after_step]
    });
    for cost in of_units.chain(&mut costs.edges) {
        (cost.issue, cost.landing) = (below(3), below(3));
    }
    costs.units.iter_mut().for_each(|unit| unit.gradient_norm = below(3));
    costs
}

/// Other compute times, and other links; the ranks' own time for messages as it was.
fn with_other_times(program: &CheckedProgram, costs: &Costs, seed: u64) -> Costs {
    let mut others = uneven_costs(program, seed);
    others.links = costs.links;
    let keep =
        |other: &mut MessageCost, of: MessageCost| (other.issue, other.landing) = (of.issue, of.landing);
    for (other, unit) in others.units.iter_mut().zip(&costs.units) {
        keep(&mut other.gather, unit.gather);
        keep(&mut other.reduce, unit.reduce);
        keep(&mut other.reduce_last, unit.reduce_last);
        keep(&mut other.gather_after_step, unit.gather_after_step);
        other.gradient_norm = unit.gradient_norm + seed % 3;
    }
    others.edges.iter_mut().zip(&costs.edges).for_each(|(other, &edge)| keep(other, edge));
    others
}

/// How long the chain of a path takes under such costs: the sum of its parts, a message that another one waited for
/// counted without its latency.
fn length(program: &CheckedProgram, path: &CriticalPath, costs: &Costs) -> u64 {
    let next = path.steps().iter().skip(1).map(|step| step.why).chain([Why::Beginning]);
    let part = |(step, next): (&PathStep, Why)| {
        if step.why == Why::Handling {
            return step.end - step.start;
        }
        let instruction = program.row(step.rank)[step.index];
        let cost = costs.message(instruction);
        match instruction {
            Instruction::GradientNorm => costs.own_norm(program, step.rank) + costs.gradient_norm,
            Instruction::Send { .. } => cost.occupied,
            _ if next == Why::LinkBusy => cost.occupied,
            _ => costs.compute(instruction) + cost.occupied + cost.latency,
        }
    };
    path.steps().iter().zip(next).map(part).sum()
}

/// A step is as long as its longest chain, so no chain is longer than the step, whatever instructions cost; and this one
/// is as long as the step under the costs that it is of.
#[test]
fn no_costs_make_a_path_longer_than_its_step() {
    let (mut num_tight, mut num_loose) = (0, 0);
    for (seed, program) in generated_programs().into_iter().enumerate() {
        for costs in [uneven_costs(&program, seed as u64), with_own_time(&program, seed as u64)] {
            let (timeline, path) = played(&program, &costs);
            assert_eq!(length(&program, &path, &costs), timeline.makespan());
            for other in 1..=4 {
                let others = with_other_times(&program, &costs, seed as u64 + 1000 * other);
                let makespan = simulate(&program, &others).unwrap().makespan();
                let length = length(&program, &path, &others);
                assert!(length <= makespan, "{length} > {makespan}, seed {seed}, other {other}");
                *(if length == makespan { &mut num_tight } else { &mut num_loose }) += 1;
            }
        }
    }
    assert!(num_tight > 50 && num_loose > 500, "{num_tight} of {num_loose}");
}

#[test]
fn a_pipeline_that_waits_for_nothing_is_one_rank_and_its_ramp() {
    let program = checked(&gpipe(3, 4).unwrap(), 1, &LowerOptions::ZERO_0);
    let costs = Costs::uniform(&program, UnitCosts::of_compute(2, 3, 2), MessageCost::default());
    let (_, path) = played(&program, &costs);
    let spent = |activity, time| (Spent::On(activity), time);
    // (m + p - 1) forwards and backwards.
    assert_eq!(path.summary(&program), [spent(Activity::Backward, 6 * 5), spent(Activity::Forward, 6 * 2)]);
}

/// A timeline that no simulation made: still no gaps, and nothing is lost.
#[test]
fn times_that_nothing_explains_are_shown() {
    let program = checked(&one_f_one_b(2, 2).unwrap(), 1, &LowerOptions::ZERO_1);
    let costs = uneven_costs(&program, 3);
    let (timeline, path) = played(&program, &costs);
    let late = |rank| {
        let spans = timeline.row(PipelineRank(rank)).iter();
        spans.map(|of| Span { start: 3 * of.start + 1, end: 3 * of.end.max(of.start + 1) }).collect()
    };
    let late = Timeline::from_spans((0..2).map(late).collect());
    let late_path = critical_path(&program, &costs, &late);
    assert_eq!(late_path.steps().iter().map(|step| step.end - step.start).sum::<u64>(), late.makespan());
    let before = late_path.steps().iter().filter(|step| step.why.is_before());
    let unexplained: u64 = before.map(|step| step.end - step.start).sum();
    // One for each instruction that started late, and there are about as many as before.
    assert!(unexplained > 0 && unexplained < 3 * path.steps().len() as u64);
}

/// One unit on one pipeline rank; of its two data ranks the other is half as fast.
#[test]
fn waits_for_a_slower_data_rank_are_not_own_time() {
    let options = LowerOptions::zero_3(Residency::All, 0);
    let program = checked(&gpipe(1, 1).unwrap(), 1, &options);
    let message = MessageCost { issue: 1, occupied: 7, latency: 3, landing: 2 };
    let unit = UnitCosts {
        gather: message,
        reduce: message,
        reduce_last: message,
        ..UnitCosts::of_compute(4, 3, 3)
    };
    let costs = Costs::uniform(&program, unit, MessageCost::default());
    let cluster = Cluster { speeds: [(1, Ratio::new(1, 2))].into(), ..Cluster::alike(2) };
    let played = cluster::simulate(&program, &costs, &cluster).unwrap();
    let path = critical_path(&program, &costs, &played.by_data_rank()[0]);
    // The other one issues a message in 2, completes it in 4, and computes for 8 and 12: it joins the gather 1 later, and
    // the reduction 1 + 2 + 4 + 6 later, which it takes 2 longer to complete, so it joins the norm later too.
    let expected = [
        (Spent::DataRanks, 1 + 13),
        (Spent::On(Activity::Gather), 10),
        (Spent::On(Activity::Reduce), 10),
        (Spent::On(Activity::Backward), 6),
        (Spent::Handling, 2 * (1 + 2)),
        (Spent::On(Activity::Forward), 4),
        (Spent::On(Activity::Synchronization), 2),
    ];
    let summary = path.summary(&program);
    assert_eq!(summary.iter().map(|(_, time)| time).sum::<u64>(), 52);
    assert!(expected.iter().all(|of| summary.contains(of)), "{summary:?}");
    let waits = path.steps().iter().filter(|step| step.why == Why::DataRanks);
    assert_eq!(waits.map(|step| (step.start, step.end)).collect::<std::vec::Vec<_>>(), [(1, 2), (25, 38)]);
}
