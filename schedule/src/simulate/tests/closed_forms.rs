//! Every closed form in the range that it is stated for, up to 64 ranks, 8 stages on each and 512 micro-batches; and just
//! outside it.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::vec::Vec;

use super::{Costs, MessageCost, RankTimes, UnitCosts, makespan, simulate, study};
use crate::closed_form::{
    SplitTimes, StageTimes, bfs_makespan, eager_1f1b_in_flight, eager_1f1b_makespan, gpipe_makespan,
    interleaved_in_flight, interleaved_makespan, one_f_one_b_in_flight, one_f_one_b_makespan,
    zb_h1_in_flight, zb_h1_makespan, zb_h2_in_flight, zb_h2_longest_rank_span, zb_h2_makespan,
    zb_v_longest_rank_span, zb_v_makespan,
};
use crate::generate::{SizeError, bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};
use crate::id::{PipelineRank, Stage};
use crate::options::LowerOptions;
use crate::order::ComputeOrder;
use crate::testing::checked;

/// Makespan and longest rank's span of one unit in each stage, with the times of a stage.
pub(super) fn played(order: &ComputeOrder, [forward, input, weight, hop]: [u64; 4]) -> (u64, u64) {
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
fn schedules_of_whole_backwards_hold_in_their_ranges() {
    holds((sizes(1), times(u64::min)), |((p, _, m), times)| {
        equal(gpipe_makespan(p, m, times), &gpipe(p, m).unwrap(), times)
    });
    // Any hop if the ranks divide the micro-batches.
    holds((sizes(1), times(|forward, backward| 7 * (forward + backward))), |((p, _, m), times)| {
        let m = if times.hop == 0 { m } else { m.next_multiple_of(p) };
        equal(one_f_one_b_makespan(p, m, times), &one_f_one_b(p, m).unwrap(), times)
    });
    holds((sizes(1), times(|forward, backward| (forward + backward) / 2)), |((p, _, m), times)| {
        equal(eager_1f1b_makespan(p, m, times), &eager_1f1b(p, m).unwrap(), times)
    });
    holds((sizes(8), times(u64::min)), |((p, v, m), times)| {
        let m = if times.hop == 0 { m } else { m.next_multiple_of(p) };
        let v = v.max(2);
        equal(interleaved_makespan(p, v, m, times), &interleaved(p, v, m, p).unwrap(), times)
    });
    holds((sizes(8), times(u64::min)), |((p, v, m), times)| {
        let v = v.max(2);
        // The longest hop that a few micro-batches more than ranks hide.
        let most = times.forward.min(times.backward) * u64::from(m.saturating_sub(p)) / u64::from(p);
        let times = if m > p { StageTimes { hop: times.hop.min(most), ..times } } else { times };
        equal(bfs_makespan(p, v, m, times), &bfs(p, v, m).unwrap(), times)
    });
}

/// Asserts the forms of ZB-H1, ZB-H2 and ZB-V where they are stated; and says where they are.
fn zero_bubble_holds(p: u32, m: u32, times: SplitTimes) -> [bool; 3] {
    let of = [times.forward, times.input, times.weight, times.hop];
    let h1 = zb_h1_makespan(p, m, times).map(|form| (form, None));
    let h2 = zb_h2_makespan(p, m, times).map(|form| (form, zb_h2_longest_rank_span(p, m, times)));
    let v = zb_v_makespan(p, m, times).map(|form| (form, zb_v_longest_rank_span(p, m, times)));
    let holds = |forms: Option<(u64, Option<u64>)>, order: Result<ComputeOrder, SizeError>| {
        let Some((makespan, longest)) = forms else { return false };
        let played = played(&order.unwrap(), of);
        assert_eq!(played, (makespan, longest.unwrap_or(played.1)), "p {p}, m {m}, {times:?}");
        true
    };
    assert!([h2, v].into_iter().flatten().all(|(_, longest)| longest.is_some()), "p {p}, m {m}, {times:?}");
    [holds(h1, zb_h1(p, m)), holds(h2, zb_h2(p, m)), holds(v, zb_v(p, m))]
}

#[test]
fn zero_bubble_schedules_hold_in_their_ranges() {
    let split = (1u64..=1000, 0u64..=1000, 0u64..=1000, prop_oneof![Just(0), Just(1000), 0u64..=1000]);
    for_all((1u32..=64, 0u32..=512, split), |(p, more, (weight, forward, input, share))| {
        let m = 2 * p + more % (512 - 2 * p).min((1 << 13) / p);
        let hop = weight * share / 2000;
        let times = SplitTimes { forward: weight + forward, input: weight + input, weight, hop };
        assert!(zero_bubble_holds(p, m, times)[0]);
    });
    for_all((sizes(1), 1u64..=1_000_000), |((p, _, m), time)| {
        let times = SplitTimes { forward: time, input: time, weight: time, hop: 0 };
        assert_eq!(zero_bubble_holds(p, m.max(2 * p - 1), times)[1..], [true; 2]);
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
        for (num_held, holds) in num_held.iter_mut().zip(zero_bubble_holds(p, m, times)) {
            *num_held += u32::from(holds);
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
    assert!(zero_bubble_holds(p, m, SplitTimes { forward: 300, input: 260, weight: 200, hop: 37 })[0]);
    let even = SplitTimes { forward: 7, input: 7, weight: 7, hop: 0 };
    assert_eq!(zero_bubble_holds(p, m, even)[1..], [true; 2]);
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
        // With two receive buffers; with any number of them it would be 36.5 and 47.25.
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
    let played_whole = |order: Result<ComputeOrder, SizeError>, hop| {
        makespan(&order.unwrap(), StageTimes { forward: 10, backward: 20, hop })
    };
    let played_h1 = |m, times| played(&zb_h1(4, m).unwrap(), times).0;
    // The formulas of four ranks and these times, without their conditions.
    let gpipe_form = |m: u64, hop: u64| (m + 3) * 30 + 6 * hop;
    let one_f_one_b_form = |m: u64| (m + 3) * 30 + 6 * m / 4 + 4;
    let looped_form = |m: u64, hop: u64| (m * 2 + 3) * 30 + 14 * hop;
    let bfs_form = |m: u64, hop: u64| (m * 2 + 3) * 30 + 6 * hop;
    let h1_form = |m: u64, [forward, input, weight, hop]: [u64; 4]| {
        m * (forward + input + weight) + 3 * (forward + input - weight + 4 * hop)
    };
    assert_eq!(played_whole(one_f_one_b(4, 8), 1), one_f_one_b_form(8));
    // 4 c <= (5 - 4) 10
    assert_eq!(played_whole(bfs(4, 2, 5), 2), bfs_form(5, 2));
    assert_eq!(played_h1(8, [10, 10, 8, 4]), h1_form(8, [10, 10, 8, 4]));
    for (name, played, form) in [
        ("gpipe, c > min", played_whole(gpipe(4, 8), 11), gpipe_form(8, 11)),
        ("eager, c > half", played_whole(eager_1f1b(4, 8), 16), gpipe_form(8, 16)),
        ("1f1b, p does not divide m", played_whole(one_f_one_b(4, 10), 1), one_f_one_b_form(10)),
        ("interleaved, c > min", played_whole(interleaved(4, 2, 8, 4), 11), looped_form(8, 11)),
        ("interleaved, p does not divide m", played_whole(interleaved(4, 2, 9, 4), 1), looped_form(9, 1)),
        ("bfs, a turn is not hidden", played_whole(bfs(4, 2, 5), 3), bfs_form(5, 3)),
        ("zb-h1, c > T_W / 2", played_h1(8, [10, 10, 8, 5]), h1_form(8, [10, 10, 8, 5])),
        ("zb-h1, T_W > min", played_h1(8, [10, 10, 11, 0]), h1_form(8, [10, 10, 11, 0])),
        ("zb-h1, m < 2 p", played_h1(3, [10, 10, 10, 5]), h1_form(3, [10, 10, 10, 5])),
        // All times equal but for the weights': the formulas of the longest rank say that there is no bubble.
        ("zb-h2", played(&zb_h2(4, 8).unwrap(), [10, 10, 9, 0]).1, 8 * 29),
        ("zb-v", played(&zb_v(4, 8).unwrap(), [10, 10, 9, 0]).1, 16 * 29),
    ] {
        assert_ne!(played, form, "{name}");
    }
}
