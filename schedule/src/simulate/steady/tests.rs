//! Extended steps against the same steps played in full.

use proptest::prelude::*;

use super::super::{IdleCause, Links, MessageCost, RankTimes, UnitCosts, study, study_long};
use super::*;
use crate::closed_form::{
    StageTimes, bfs_makespan, eager_1f1b_makespan, gpipe_makespan, interleaved_makespan, one_f_one_b_makespan,
};
use crate::generate::{
    SizeError, bfs, eager_1f1b, forward_only, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::order::ComputeOrder;
use crate::testing::{all_options, checked, mixed_units, units};

type Generate = fn(u32, u32) -> Result<ComputeOrder, SizeError>;

/// Every schedule, by ranks and micro-batches; those of several stages with two and three, and groups of several lengths.
const SCHEDULES: [(&str, Generate); 13] = [
    ("gpipe", gpipe),
    ("1f1b", one_f_one_b),
    ("eager-1f1b", eager_1f1b),
    ("forward only", forward_only),
    ("interleaved, v 2", |p, m| interleaved(p, 2, m, p)),
    ("interleaved, v 3", |p, m| interleaved(p, 3, m, p)),
    ("interleaved, N = p + 1", |p, m| interleaved(p, 2, m, p + 1)),
    ("interleaved, N = 2 p", |p, m| interleaved(p, 2, m, 2 * p)),
    ("bfs, v 2", |p, m| bfs(p, 2, m)),
    ("bfs, v 3", |p, m| bfs(p, 3, m)),
    ("zb-h1", zb_h1),
    ("zb-h2", zb_h2),
    ("zb-v", zb_v),
];

/// Asserts that the figures of a step are right, played in full or extended; returns whether it was extended.
fn is_extended(make: impl Fn(u32) -> CheckedProgram, costs: &Costs, m: u32, name: &str) -> bool {
    let long = simulate_long(|of| Ok::<_, CostsError>(make(of)), costs, m).unwrap();
    let full = Played::new(make(m), costs).unwrap();
    assert_eq!(long.makespan(), full.timeline.makespan(), "{name}, m {m}, {costs:?}");
    let longest = full.timeline.longest_rank_span(&full.program);
    assert_eq!(long.longest_rank_span(), longest, "{name}, m {m}, {costs:?}");
    for rank in full.program.ranks() {
        let rank_span = |of: &Played| of.timeline.rank_span(&of.program, rank);
        assert_eq!(long.extended(rank_span), rank_span(&full), "{name}, m {m}");
        let bubble = full.timeline.bubble(&full.program, rank);
        let of_long = |cause| long.extended(|of| of.timeline.bubble(&of.program, rank).of(cause));
        let causes = IdleCause::ALL;
        assert_eq!(
            causes.map(of_long),
            causes.map(|cause| bubble.of(cause)),
            "{name}, m {m}, {rank}, {costs:?}"
        );
        let busy = |of: &Played| of.timeline.busy(&of.program, rank);
        assert_eq!(long.extended(busy), busy(&full), "{name}, m {m}");
        let activations = |of: &Played| of.program.high_water(rank).activations as u64;
        assert_eq!(long.extended(activations), activations(&full), "{name}, m {m}");
        let gathered = |of: &Played| of.program.high_water(rank).gathered_bytes;
        assert_eq!(long.extended(gathered), gathered(&full), "{name}, m {m}");
    }
    long.steady.is_some()
}

#[test]
fn every_schedule_is_extended_to_what_playing_it_gives() {
    let (mut num_steps, mut num_extended) = (0, 0);
    for (name, generate) in SCHEDULES {
        for (p, [forward, input, weight]) in
            [1, 2, 4].into_iter().flat_map(|p| [(p, [3, 3, 3]), (p, [5, 4, 2]), (p, [2, 7, 0])])
        {
            for (hop, m) in [0, 1, 4].into_iter().flat_map(|hop| [48 * p + 49, 50 * p + 53].map(|m| (hop, m)))
            {
                // Longer groups repeat later.
                let m = if name.ends_with("2 p") { 2 * m } else { m };
                let make = |of| checked(&generate(p, of).unwrap(), 1, &LowerOptions::ZERO_1);
                let unit = UnitCosts::of_compute(forward, input, weight);
                let costs = Costs::uniform(&make(1), unit, MessageCost::of_link(0, hop));
                let is_extended = is_extended(make, &costs, m, name);
                assert!(
                    is_extended || may_run_away(name, p, hop, forward),
                    "{name}, p {p}, m {m}, hop {hop}"
                );
                num_extended += u32::from(is_extended);
                num_steps += 1;
            }
        }
    }
    assert!(20 * num_extended > 19 * num_steps, "{num_extended} of {num_steps}");
}

/// Where all forwards are first and a message takes longer than one, the first rank runs ahead of the others more and more:
/// no two repeat at the same time.
fn may_run_away(name: &str, p: u32, hop: u64, forward: u64) -> bool {
    let is_forwards_first = name == "gpipe" || name == "forward only" || name.starts_with("bfs");
    is_forwards_first && p > 1 && hop > forward
}

/// Gathers, reductions, messages that take their ranks' own time, links that are shared, units that differ.
#[test]
fn sharded_programs_are_extended_to_what_playing_them_gives() {
    let orders: [(&str, Generate); 5] =
        [SCHEDULES[1], SCHEDULES[4], SCHEDULES[0], SCHEDULES[8], SCHEDULES[10]];
    for (name, generate) in orders {
        for (options, is_mixed) in all_options(2).into_iter().flat_map(|of| [(of.clone(), false), (of, true)])
        {
            let (p, m) = (2, 151);
            // Whole backwards alone can recompute.
            let is_mixed = is_mixed && generate(1, 1).unwrap().first_half().is_none();
            let make = |of| {
                let order = generate(p, of).unwrap();
                let num_stages = order.placement.num_stages() as u32;
                let units = if is_mixed { mixed_units(num_stages, 3) } else { units(num_stages, 3, false) };
                CheckedProgram::new(lower(&order, &units, &options).unwrap()).unwrap()
            };
            let unit = UnitCosts {
                gather: MessageCost { issue: 1, occupied: 4, latency: 1, landing: 1 },
                reduce: MessageCost { issue: 0, occupied: 7, latency: 2, landing: 1 },
                reduce_last: MessageCost { issue: 0, occupied: 7, latency: 2, landing: 1 },
                optimizer_step: 3,
                ..UnitCosts::of_compute(5, 6, 4)
            };
            let hop = MessageCost { issue: 1, occupied: 2, latency: 3, landing: 1 };
            let mut costs = Costs::uniform(&make(1), unit, hop);
            (costs.gradient_norm, costs.add_tied) = (7, 5);
            if is_mixed {
                costs.links = Links::SharedByCollectives;
            }
            let is_extended = is_extended(make, &costs, m, name);
            // A rank that receives what another sends takes longer for it: those of GPipe and breadth first run apart. Where
            // reductions are waited for, what they take may add up to another time in each micro-batch.
            let may_run_apart = name == "gpipe" || name.starts_with("bfs") || options.reduces_in_turn();
            assert!(is_extended || may_run_apart, "{name}, {options:?}");
        }
    }
}

/// Any times, all units different: ranks of different speeds, and whatever repeats.
#[test]
fn steps_of_any_times_are_extended_to_what_playing_them_gives() {
    let any = |most: u64| 0..=most;
    let units = proptest::collection::vec((any(9), any(9), any(9), any(9)), 8);
    let inputs = (0..SCHEDULES.len(), 1u32..=4, 1u32..=400, units, any(12), any(3), proptest::bool::ANY);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    let num_extended = core::cell::Cell::new(0);
    let result = runner.run(&inputs, |(schedule, p, m, times, latency, landing, is_sharded)| {
        let (name, generate) = SCHEDULES[schedule];
        let make = |of| {
            let options =
                if is_sharded { LowerOptions::zero_3(Residency::Strict, 1) } else { LowerOptions::ZERO_1 };
            checked(&generate(p, of).unwrap(), 1, &options)
        };
        let hop = MessageCost { landing, ..MessageCost::of_link(1, latency) };
        let mut costs = Costs::uniform(&make(1), UnitCosts::default(), hop);
        for (unit, (forward, input, weight, gather)) in costs.units.iter_mut().zip(times.iter().cycle()) {
            *unit = UnitCosts::of_compute(*forward, *input, *weight);
            (unit.gather, unit.reduce) =
                (MessageCost::of_link(*gather, 1), MessageCost::of_link(*gather, latency));
            unit.reduce_last = unit.reduce;
        }
        num_extended.set(num_extended.get() + u32::from(is_extended(make, &costs, m, name)));
        Ok(())
    });
    result.unwrap();
    assert!(num_extended.get() > 20, "{}", num_extended.get());
}

/// No program of so many micro-batches would fit any machine.
#[test]
fn closed_forms_hold_for_millions_of_micro_batches() {
    let played = |generate: &dyn Fn(u32) -> Result<ComputeOrder, SizeError>, m| {
        let times = RankTimes { forward: 3, backward_input: 2, backward_weight: 3, latency: 1 };
        let step = study_long(|of| Ok::<_, CostsError>(generate(of).unwrap()), m, times).unwrap();
        // Closed forms are in times of a stage, and so are a study's parts; but its hop is a rank's.
        (step.makespan, StageTimes { forward: 3, backward: 5, hop: step.parts })
    };
    for p in [1, 2, 5, 16] {
        let m = p * (1 << 24);
        let (makespan, times) = played(&|m| one_f_one_b(p, m), m);
        assert_eq!(Some(makespan), one_f_one_b_makespan(p, m, times), "p {p}");
        let (makespan, times) = played(&|m| eager_1f1b(p, m), m + 1);
        assert_eq!(Some(makespan), eager_1f1b_makespan(p, m + 1, times), "p {p}");
        let (makespan, times) = played(&|m| gpipe(p, m), m + 1);
        assert_eq!(Some(makespan), gpipe_makespan(p, m + 1, times), "p {p}");
        let (makespan, times) = played(&|m| interleaved(p, 3, m, p), m);
        assert_eq!(Some(makespan), interleaved_makespan(p, 3, m, times), "p {p}");
        let (makespan, times) = played(&|m| bfs(p, 2, m), m);
        assert_eq!(Some(makespan), bfs_makespan(p, 2, m, times), "p {p}");
    }
}

#[test]
fn a_long_study_is_a_study() {
    for ((name, generate), p) in SCHEDULES.into_iter().flat_map(|of| [1, 2, 3].map(|p| (of, p))) {
        for m in [1, 7, 48 * p + 50, 60 * p + 71] {
            let times = RankTimes { forward: 4, backward_input: 5, backward_weight: 3, latency: 1 };
            let order = |of| generate(p, of).unwrap();
            if !order(1).has_backward() {
                continue;
            }
            let long = study_long(|of| Ok::<_, CostsError>(order(of)), m, times);
            assert_eq!(long, study(&order(m), times), "{name}, p {p}, m {m}");
        }
    }
}

#[test]
fn a_step_that_is_too_long_is_an_error() {
    let times = RankTimes { forward: 1 << 40, backward_input: 1, backward_weight: 1, latency: 0 };
    let of = |m| study_long(|of| Ok::<_, CostsError>(one_f_one_b(2, of).unwrap()), m, times);
    assert!(of(1 << 23).is_ok());
    assert_eq!(of(1 << 24).unwrap_err(), CostsError::TooLong { total: (1 << 24) * ((1 << 40) + 2) });
}

/// A pattern that is broken in one place does not repeat.
#[test]
fn one_instruction_out_of_step_is_seen() {
    let (size, period) = (24, 2);
    let played = |m| {
        let program = checked(&one_f_one_b(2, m).unwrap(), 1, &LowerOptions::ZERO_1);
        let costs = Costs::uniform(&program, UnitCosts::of_compute(3, 2, 2), MessageCost::of_link(0, 1));
        Played::new(program, &costs).unwrap()
    };
    let (short, long) = (Series::of(&played(size)), Series::of(&played(size + period)));
    assert!(repeated(&short, &long, period, 4).is_some());
    let mut num_broken = 0;
    for (at, series) in long.iter().enumerate() {
        // The middle of what there is one of for each micro-batch.
        for late in (0..series.spans.len()).filter(|_| series.spans.len() > 20).skip(10).take(4) {
            let mut broken = long.clone();
            broken[at].spans[late].end += 1;
            assert_eq!(repeated(&short, &broken, period, 4), None, "{at} {late}");
            num_broken += 1;
        }
    }
    assert!(num_broken > 30, "{num_broken}");
}
