//! Every closed form in the range that it is stated for, up to 64 ranks, 8 stages on each and 512 micro-batches; and just
//! outside it.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::format;
use std::vec::Vec;

use super::{Costs, MessageCost, RankTimes, UnitCosts, makespan, simulate, study};
use crate::closed_form::{
    SplitTimes, StageTimes, bfs_makespan, eager_1f1b_in_flight, eager_1f1b_makespan, gpipe_makespan,
    interleaved_in_flight, interleaved_makespan, one_f_one_b_in_flight, one_f_one_b_makespan,
    zb_h1_in_flight, zb_h1_makespan, zb_h2_in_flight, zb_h2_longest_rank_span, zb_h2_makespan,
    zb_v_longest_rank_span, zb_v_makespan,
};
use crate::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};
use crate::id::{PipelineRank, Stage};
use crate::options::LowerOptions;
use crate::order::ComputeOrder;
use crate::testing::checked;

/// Makespan and longest rank's span of one unit in each stage, with the times of a stage.
fn played(order: &ComputeOrder, [forward, input, weight, hop]: [u64; 4]) -> (u64, u64) {
    let program = checked(order, 1, &LowerOptions::ZERO_1);
    let unit = UnitCosts::of_compute(forward, input, weight);
    let costs = Costs::uniform(&program, unit, MessageCost::of_link(0, hop));
    let timeline = simulate(&program, &costs).unwrap();
    (timeline.makespan(), timeline.longest_rank_span(&program))
}

/// Ranks, stages on each, micro-batches: all sizes, up to a product that takes a few hundredths of a second to play.
fn sizes(most_virtual: u32) -> impl Strategy<Value = (u32, u32, u32)> {
    let any = (1u32..=64, 1..=most_virtual, 1u32..=512);
    any.prop_filter("too large for a quick test", |&(p, v, m)| p * v * m <= 1 << 13)
}

/// Times of a stage, and a hop that is a share of the longest for which the form is stated: all of it, none, or between.
fn times(longest: impl Fn(u64, u64) -> u64 + Copy) -> impl Strategy<Value = StageTimes> {
    let share = prop_oneof![Just(0), Just(1000), 0u64..=1000];
    (1u64..=1_000_000, 1u64..=1_000_000, share).prop_map(move |(forward, backward, share)| StageTimes {
        forward,
        backward,
        hop: longest(forward, backward) * share / 1000,
    })
}

fn for_all<T: core::fmt::Debug>(inputs: impl Strategy<Value = T>, test: impl Fn(T)) {
    let run = TestRunner::new(ProptestConfig::with_cases(64)).run(&inputs, |input| {
        test(input);
        Ok(())
    });
    run.unwrap();
}

/// The test says whether the form is stated for its input; it has to be for a good part of them.
fn holds<T: core::fmt::Debug>(inputs: impl Strategy<Value = T>, test: impl Fn(T) -> bool) {
    let num_held = core::cell::Cell::new(0);
    for_all(inputs, |input| num_held.set(num_held.get() + u32::from(test(input))));
    assert!(num_held.get() >= 20, "{} of 64", num_held.get());
}

/// Asserts a form where it is stated; and says whether it is.
fn equal(form: Option<u64>, order: &ComputeOrder, times: StageTimes) -> bool {
    form.inspect(|&form| assert_eq!(makespan(order, times), form, "{times:?}")).is_some()
}

#[test]
fn gpipe_holds_in_its_range() {
    holds((sizes(1), times(u64::min)), |((p, _, m), times)| {
        equal(gpipe_makespan(p, m, times), &gpipe(p, m).unwrap(), times)
    });
}

#[test]
fn one_f_one_b_holds_in_its_range() {
    // Any hop if the ranks divide the micro-batches.
    holds((sizes(1), times(|forward, backward| 7 * (forward + backward))), |((p, _, m), times)| {
        let m = if times.hop == 0 { m } else { m.next_multiple_of(p) };
        equal(one_f_one_b_makespan(p, m, times), &one_f_one_b(p, m).unwrap(), times)
    });
}

#[test]
fn eager_1f1b_holds_in_its_range() {
    holds((sizes(1), times(|forward, backward| (forward + backward) / 2)), |((p, _, m), times)| {
        equal(eager_1f1b_makespan(p, m, times), &eager_1f1b(p, m).unwrap(), times)
    });
}

#[test]
fn interleaved_holds_in_its_range() {
    holds((sizes(8), times(u64::min)), |((p, v, m), times)| {
        let m = if times.hop == 0 { m } else { m.next_multiple_of(p) };
        let v = v.max(2);
        equal(interleaved_makespan(p, v, m, times), &interleaved(p, v, m, p).unwrap(), times)
    });
}

#[test]
fn bfs_holds_in_its_range() {
    holds((sizes(8), times(u64::min)), |((p, v, m), times)| {
        let v = v.max(2);
        // The longest hop that a few micro-batches more than ranks hide.
        let most = times.forward.min(times.backward) * u64::from(m.saturating_sub(p)) / u64::from(p);
        let times = if m > p { StageTimes { hop: times.hop.min(most), ..times } } else { times };
        equal(bfs_makespan(p, v, m, times), &bfs(p, v, m).unwrap(), times)
    });
}

#[test]
fn zero_bubble_schedules_hold_in_their_ranges() {
    let split = (1u64..=1000, 0u64..=1000, 0u64..=1000, prop_oneof![Just(0), Just(1000), 0u64..=1000]);
    for_all((1u32..=64, 0u32..=512, split), |(p, more, (weight, forward, input, share))| {
        let m = 2 * p + more % (512 - 2 * p).min((1 << 13) / p);
        let hop = weight * share / 2000;
        let times = SplitTimes { forward: weight + forward, input: weight + input, weight, hop };
        let of = [times.forward, times.input, times.weight, times.hop];
        let form = zb_h1_makespan(p, m, times).expect("within its range");
        assert_eq!(played(&zb_h1(p, m).unwrap(), of).0, form, "p {p}, m {m}, {times:?}");
    });
    for_all((sizes(1), 1u64..=1_000_000), |((p, _, m), time)| {
        let m = m.max(2 * p - 1);
        let times = SplitTimes { forward: time, input: time, weight: time, hop: 0 };
        let forms = (zb_h2_makespan(p, m, times).unwrap(), zb_h2_longest_rank_span(p, m, times).unwrap());
        assert_eq!(played(&zb_h2(p, m).unwrap(), [time, time, time, 0]), forms, "p {p}, m {m}");
        let forms = (zb_v_makespan(p, m, times).unwrap(), zb_v_longest_rank_span(p, m, times).unwrap());
        assert_eq!(played(&zb_v(p, m).unwrap(), [time, time, time, 0]), forms, "p {p}, m {m}");
    });
}

/// All small sizes and times.
#[test]
fn small_zero_bubble_schedules_hold_in_their_ranges() {
    let mut num_held = [0; 3];
    let all_times = (1..=4).flat_map(|forward| {
        (1..=4).flat_map(move |input| {
            (0..=4).flat_map(move |weight| (0..=2).map(move |hop| SplitTimes { forward, input, weight, hop }))
        })
    });
    let sizes = || (1..=4).flat_map(|p| (1..=10).map(move |m| (p, m)));
    for (times, (p, m)) in all_times.flat_map(|times| sizes().map(move |size| (times, size))) {
        let of = [times.forward, times.input, times.weight, times.hop];
        let case = format!("p {p}, m {m}, {times:?}");
        if let Some(form) = zb_h1_makespan(p, m, times) {
            assert_eq!(played(&zb_h1(p, m).unwrap(), of).0, form, "{case}");
            num_held[0] += 1;
        }
        if let Some(form) = zb_h2_makespan(p, m, times) {
            let forms = (form, zb_h2_longest_rank_span(p, m, times).unwrap());
            assert_eq!(played(&zb_h2(p, m).unwrap(), of), forms, "{case}");
            num_held[1] += 1;
        }
        if let Some(form) = zb_v_makespan(p, m, times) {
            let forms = (form, zb_v_longest_rank_span(p, m, times).unwrap());
            assert_eq!(played(&zb_v(p, m).unwrap(), of), forms, "{case}");
            num_held[2] += 1;
        }
    }
    assert!(num_held.iter().all(|&num_held| num_held > 80), "{num_held:?}");
}

#[test]
fn the_largest_sizes_hold() {
    let (p, v, m) = (64, 8, 512);
    let times = StageTimes { forward: 300, backward: 500, hop: 37 };
    assert!(equal(gpipe_makespan(p, m, times), &gpipe(p, m).unwrap(), times));
    assert!(equal(one_f_one_b_makespan(p, m, times), &one_f_one_b(p, m).unwrap(), times));
    assert!(equal(eager_1f1b_makespan(p, m, times), &eager_1f1b(p, m).unwrap(), times));
    assert!(equal(interleaved_makespan(p, v, m, times), &interleaved(p, v, m, p).unwrap(), times));
    assert!(equal(bfs_makespan(p, v, m, times), &bfs(p, v, m).unwrap(), times));
    let uneven = SplitTimes { forward: 300, input: 260, weight: 200, hop: 37 };
    let form = zb_h1_makespan(p, m, uneven).unwrap();
    assert_eq!(played(&zb_h1(p, m).unwrap(), [300, 260, 200, 37]).0, form);
    let even = SplitTimes { forward: 7, input: 7, weight: 7, hop: 0 };
    let forms = (zb_h2_makespan(p, m, even).unwrap(), zb_h2_longest_rank_span(p, m, even).unwrap());
    assert_eq!(played(&zb_h2(p, m).unwrap(), [7, 7, 7, 0]), forms);
    let forms = (zb_v_makespan(p, m, even).unwrap(), zb_v_longest_rank_span(p, m, even).unwrap());
    assert_eq!(played(&zb_v(p, m).unwrap(), [7, 7, 7, 0]), forms);
}

/// Makespan in times of a whole rank, and micro-batches in flight by rank.
fn studied(order: ComputeOrder, latency: u64) -> (f64, Vec<f64>) {
    let times = RankTimes { forward: 1, backward_input: 1, backward_weight: 1, latency };
    let study = study(&order, times).unwrap();
    let of_rank = |of: u64| of as f64 / study.parts as f64;
    (of_rank(study.makespan), study.peak_in_flight.iter().map(|&of| of_rank(of)).collect())
}

#[test]
fn the_worked_numbers_are_exact() {
    let cases = [
        (gpipe(4, 8), [33.0, 39.0], [8.0; 4]),
        (one_f_one_b(4, 8), [33.0, 49.0], [4.0, 3.0, 2.0, 1.0]),
        (eager_1f1b(4, 8), [33.0, 39.0], [7.0, 5.0, 3.0, 1.0]),
        (interleaved(4, 2, 8, 4), [28.5, 46.0], [5.5, 4.5, 3.5, 2.5]),
        (interleaved(4, 4, 8, 4), [26.25, 69.0], [4.75, 4.25, 3.75, 3.25]),
        // With two receive buffers; there would be 36.5 and 47.25 without end of them.
        (bfs(4, 2, 8), [28.5, 38.0], [8.0; 4]),
        (bfs(4, 4, 8), [26.25, 51.0], [8.0; 4]),
        (zb_h1(4, 8), [27.0, 41.0], [4.0, 3.0, 2.0, 1.0]),
    ];
    for (order, makespans, in_flight) in cases {
        let order = order.unwrap();
        for (latency, makespan) in (0..).zip(makespans) {
            assert_eq!(studied(order.clone(), latency), (makespan, in_flight.to_vec()), "{}", order.to_csv());
        }
    }
    assert_eq!(studied(zb_h2(4, 8).unwrap(), 0), (27.0, [7.0, 5.0, 3.0, 1.0].to_vec()));
    assert_eq!(studied(zb_v(4, 8).unwrap(), 0), (25.5, [4.0; 4].to_vec()));
    let larger = [
        (gpipe(8, 32), 117.0),
        (one_f_one_b(8, 32), 117.0),
        (interleaved(8, 2, 32, 8), 106.5),
        (interleaved(8, 4, 32, 8), 101.25),
        (bfs(8, 4, 32), 101.25),
        (zb_h1(8, 32), 103.0),
        (zb_h2(8, 32), 103.0),
        (one_f_one_b(16, 128), 429.0),
        (one_f_one_b(64, 512), 1725.0),
    ];
    for (order, makespan) in larger {
        assert_eq!(studied(order.unwrap(), 0).0, makespan);
    }
    // The longest rank of these computes all the time; zb-v has two stages on each rank, so its times are in halves.
    let longest = [(zb_h2(4, 8), 24), (zb_h2(8, 32), 96), (zb_v(4, 8), 48)];
    for (order, span) in longest {
        assert_eq!(played(&order.unwrap(), [1, 1, 1, 0]).1, span);
    }
}

#[test]
fn in_flight_counts_are_exact_at_any_size() {
    for_all((sizes(8), 0u32..=64), |((p, v, m), more)| {
        let (v, group_size) = (v.max(2), p + more);
        let most =
            [gpipe(p, m), one_f_one_b(p, m), eager_1f1b(p, m), zb_h1(p, m), zb_h2(p, m)].map(Result::unwrap);
        let (breadth_first, depth_first) = (bfs(p, v, m).unwrap(), interleaved(p, v, m, group_size).unwrap());
        for rank in (0..p).map(PipelineRank) {
            let stage = Stage(rank.0);
            let forms = [
                m,
                one_f_one_b_in_flight(p, m, stage),
                eager_1f1b_in_flight(p, m, stage),
                zb_h1_in_flight(p, m),
                zb_h2_in_flight(p, m),
            ];
            assert_eq!(most.each_ref().map(|order| order.in_flight(stage) as u32), forms, "p {p}, m {m}");
            // Until their input gradient, the zero-bubble schedules hold what those hold that they are made of.
            let until_input = [3, 4].map(|at: usize| most[at].in_flight_until_input(rank) as u32);
            assert_eq!(until_input, [forms[1], forms[2]], "p {p}, m {m}");
            assert_eq!(breadth_first.in_flight_on(rank) as u32, v * m);
            let form = interleaved_in_flight(p, v, m, group_size, rank);
            assert_eq!(depth_first.in_flight_on(rank) as u64, form, "p {p}, v {v}, m {m}, N {group_size}");
        }
    });
}

/// Each condition is needed: one step beyond it, the formula is wrong.
#[test]
fn just_outside_their_ranges_the_forms_fail() {
    let times = |forward, backward, hop| StageTimes { forward, backward, hop };
    // The formulas, without their conditions.
    let gpipe_form =
        |p: u64, m: u64, of: StageTimes| (m + p - 1) * (of.forward + of.backward) + 2 * (p - 1) * of.hop;
    let looped_form = |p: u64, v: u64, m: u64, of: StageTimes| {
        (m * v + p - 1) * (of.forward + of.backward) + 2 * (p * v - 1) * of.hop
    };
    let fails = |name: &str, order: ComputeOrder, times: StageTimes, form: u64| {
        assert_ne!(makespan(&order, times), form, "{name}");
    };
    let of = times(10, 20, 11);
    fails("gpipe, c > min", gpipe(4, 8).unwrap(), of, gpipe_form(4, 8, of));
    let of = times(10, 20, 16);
    fails("eager, c > half", eager_1f1b(4, 8).unwrap(), of, gpipe_form(4, 8, of));
    let of = times(10, 20, 1);
    let form = |m: u64| (m + 3) * 30 + 2 * 3 * m / 4 + 4;
    assert_eq!(makespan(&one_f_one_b(4, 8).unwrap(), of), form(8));
    fails("1f1b, p does not divide m", one_f_one_b(4, 10).unwrap(), of, form(10));
    let of = times(10, 20, 11);
    fails("interleaved, c > min", interleaved(4, 2, 8, 4).unwrap(), of, looped_form(4, 2, 8, of));
    let of = times(10, 20, 1);
    fails("interleaved, p does not divide m", interleaved(4, 2, 9, 4).unwrap(), of, looped_form(4, 2, 9, of));
    let bfs_form = |m: u64, of: StageTimes| (m * 2 + 3) * (of.forward + of.backward) + 2 * 3 * of.hop;
    // 4 c <= (5 - 4) 10
    assert_eq!(makespan(&bfs(4, 2, 5).unwrap(), times(10, 20, 2)), bfs_form(5, times(10, 20, 2)));
    fails(
        "bfs, a turn is not hidden",
        bfs(4, 2, 5).unwrap(),
        times(10, 20, 3),
        bfs_form(5, times(10, 20, 3)),
    );
    let split_form = |m: u64, [forward, input, weight, hop]: [u64; 4]| {
        m * (forward + input + weight) + 3 * (forward + input - weight + 4 * hop)
    };
    let fails = |name: &str, m: u32, times: [u64; 4]| {
        assert_ne!(played(&zb_h1(4, m).unwrap(), times).0, split_form(m.into(), times), "{name}");
    };
    assert_eq!(played(&zb_h1(4, 8).unwrap(), [10, 10, 8, 4]).0, split_form(8, [10, 10, 8, 4]));
    fails("zb-h1, c > T_W / 2", 8, [10, 10, 8, 5]);
    fails("zb-h1, T_W > min", 8, [10, 10, 11, 0]);
    fails("zb-h1, m < 2 p", 3, [10, 10, 10, 5]);
    // All times equal but for the weights': the formulas of the longest rank say that there is no bubble.
    assert_ne!(played(&zb_h2(4, 8).unwrap(), [10, 10, 9, 0]).1, 8 * 29);
    assert_ne!(played(&zb_v(4, 8).unwrap(), [10, 10, 9, 0]).1, 16 * 29);
}
