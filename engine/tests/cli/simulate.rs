//! `simulate --schedule`.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

/// The times of a schedule: every part of a micro-batch takes 1.
pub(crate) const TIMES: &str = "--forward 1 --backward-input 1 --backward-weight 1";

/// The JSON of a schedule with these sizes and times.
fn simulate(schedule: &str, [ranks, micro_batches]: [u32; 2], times: [&str; 4]) -> Value {
    let [forward, input, weight, latency] = times;
    Home::new().json(format!(
        "simulate --schedule {schedule} --ranks {ranks} --micro-batches {micro_batches} --latency {latency} \
         --forward {forward} --backward-input {input} --backward-weight {weight} --json"
    ))
}

/// p = 4, m = 8, T_F = T_I = T_W = 1: the worked numbers of docs/schedules.md.
#[test]
fn worked_numbers() {
    let makespan = |schedule, latency| {
        simulate(schedule, [4, 8], ["1", "1", "1", latency])["makespan"].as_f64().unwrap()
    };
    for (schedule, expected) in [
        ("gpipe", [33.0, 39.0]),
        ("1f1b", [33.0, 49.0]),
        ("eager-1f1b", [33.0, 39.0]),
        ("interleaved --virtual-stages 2", [28.5, 46.0]),
        ("interleaved --virtual-stages 4", [26.25, 69.0]),
        // Beyond its formula's latency: messages wait for one of two receive buffers.
        ("bfs --virtual-stages 2", [28.5, 38.0]),
        ("bfs --virtual-stages 4", [26.25, 51.0]),
        ("zb-h1", [27.0, 41.0]),
    ] {
        assert_eq!(["0", "1"].map(|latency| makespan(schedule, latency)), expected, "{schedule}");
    }
    assert_eq!(makespan("zb-v", "0"), 25.5);
}

/// Profiled settings of the zero-bubble papers (arXiv:2401.10241, tables 5 and 8), milliseconds.
#[test]
fn published_bubbles() {
    let rate = |schedule, sizes, times| {
        let found = simulate(schedule, sizes, times);
        format!("{:.4}", found["bubble_rate_longest_rank"].as_f64().unwrap())
    };
    let small = |schedule| rate(schedule, [8, 24], ["18.522", "18.086", "9.337", "0.601"]);
    assert_eq!(["1f1b", "zb-h1", "zb-h2"].map(small), ["0.2431", "0.1585", "0.1083"]);
    let large = |schedule| rate(schedule, [16, 48], ["28.814", "28.760", "19.352", "1.610"]);
    assert_eq!(["1f1b", "zb-h1", "zb-h2"].map(large), ["0.2668", "0.1536", "0.0823"]);
}

#[test]
fn in_flight_counts_are_exact() {
    for (schedule, expected) in [
        ("1f1b", [4.0, 3.0, 2.0, 1.0]),
        ("gpipe", [8.0; 4]),
        ("zb-h1", [4.0, 3.0, 2.0, 1.0]),
        ("zb-h2", [7.0, 5.0, 3.0, 1.0]),
        ("zb-v", [4.0; 4]),
        ("interleaved --virtual-stages 2", [5.5, 4.5, 3.5, 2.5]),
    ] {
        let found = simulate(schedule, [4, 8], ["1", "1", "1", "0"]);
        assert_eq!(found["peak_in_flight"], Value::from(expected.to_vec()), "{schedule}");
    }
}

#[test]
fn text_shows_both_measures_and_the_order() {
    let times = "--forward 1.5 --backward-input 1.5 --backward-weight 1";
    expect![[r#"
                                time   bubble
        a rank's computes         16
        all ranks                 18  11.11 %
        the longest rank alone    18  11.11 %

        micro-batches in flight at most, by rank, until their input gradient: 2, 1

        order of work (F, I and W one column, B two):
        rank 0  F0 F1 .. I0 W0 F2 I1 W1 F3 I2 W2 I3 W3
        rank 1  .. F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3
    "#]]
    .assert_eq(
        &Home::new().run(format!("simulate --schedule zb-h1 --ranks 2 --micro-batches 4 {times}")).success(),
    );
}

/// A schedule that is only too large is not a mistake.
#[test]
fn arguments_that_make_no_schedule_are_errors() {
    Home::new().refuses(&format!("simulate {TIMES} --micro-batches 2 --schedule"), expect![[r#"
        $ interleaved --ranks 2
        [2] error: `virtual_stages` is missing: this schedule runs several stages on each rank; add 2 or more
        $ 1f1b --virtual-stages 2 --ranks 2
        [2] error: `virtual_stages` is 2: this schedule runs 1 on each rank; leave it out
        $ 1f1b --group-size 2 --ranks 2
        [2] error: `group_size` is 2: only `interleaved` runs micro-batches in groups; leave it out
        $ 1f1b --ranks 0
        [2] error: a pipeline of 0 ranks: it needs at least 1
        $ 1f1b --ranks 4000000000
        [1] error: 4000000000 ranks of 1 stages make a pipeline of 4000000000: at most 4096 are simulated; use fewer ranks or virtual stages
        $ zb-v --ranks 10000000
        [1] error: 10000000 ranks of 2 stages make a pipeline of 20000000: at most 4096 are simulated; use fewer ranks or virtual stages
        $ interleaved --virtual-stages 4000000000 --ranks 1
        [1] error: 1 ranks of 4000000000 stages make a pipeline of 4000000000: at most 4096 are simulated; use fewer ranks or virtual stages
    "#]]);
}

/// A step that would fill the memory is refused; a longer one with a steady state is not.
#[test]
fn the_size_of_a_simulated_step_is_limited() {
    let simulate = format!("simulate --schedule 1f1b {TIMES}");
    Home::new().refuses(&simulate, expect![[r#"
        $ --ranks 4000 --micro-batches 800
        [1] error: 800 micro-batches: the step has 19208800 instructions over all ranks, and at most 16777216 are simulated, in two gigabytes of memory; with so many ranks and stages, use 698 or fewer
    "#]]);
    let text = Home::new().run(simulate + " --ranks 2 --micro-batches 4000000000").success();
    assert!(text.contains("12000000003"), "{text}");
}

#[test]
fn work_that_takes_no_time_is_an_error() {
    Home::new().refuses("simulate --ranks 2 --micro-batches 2 --schedule", expect![[r#"
        $ 1f1b --forward 0 --backward-input 1 --backward-weight 1
        [2] error: the time of forward is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward that the schedule runs whole)
        $ gpipe --forward 0.000 --backward-input 1 --backward-weight 1
        [2] error: the time of forward is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward that the schedule runs whole)
        $ zb-h1 --forward 1 --backward-input 0 --backward-weight 1
        [2] error: the time of backward input is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward that the schedule runs whole)
        $ zb-v --forward 1 --backward-input 1 --backward-weight 0.0
        [2] error: the time of backward weight is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward that the schedule runs whole)
        $ 1f1b --forward 1 --backward-input 0 --backward-weight 0
        [2] error: the times of backward input and backward weight are both 0: a backward takes time; make one of them more than 0
    "#]]);
}

#[test]
fn values_that_cannot_be_parsed_are_errors() {
    let home = Home::new();
    let time = "a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it";
    let count = "write a whole number from 0 to 4294967295, in digits alone";
    let columns = "write a whole number from 0 to 18446744073709551615, in digits alone";
    for (flag, name, value, rule) in [
        // A sign is not taken for an argument.
        ("--forward", "T", "-1", time),
        ("--latency", "T", "-0.5", time),
        ("--backward-weight", "T", "NaN", time),
        ("--backward-input", "T", "inf", time),
        ("--forward", "T", "1e300", time),
        ("--forward", "T", "1e-400", time),
        ("--forward", "T", "10000000000", time),
        ("--forward", "T", "0.0000000001", time),
        ("--forward=", "T", "", time),
        ("--ranks", "P", "-1", count),
        ("--ranks", "P", "2.5", count),
        ("--micro-batches", "M", "99999999999999999999", count),
        ("--virtual-stages", "V", "5000000000", count),
        ("--width", "COLUMNS", "-3", columns),
    ] {
        let error = home.run(format!("simulate --schedule interleaved {flag} {value}")).failure(2);
        let flag = flag.trim_end_matches('=');
        let expected = format!("error: invalid value '{value}' for '{flag} <{name}>': {rule}");
        assert_eq!(error.lines().next(), Some(expected.as_str()));
    }
}

/// A message may take no time, and so may one half of a backward that runs whole: only the sum counts.
#[test]
fn one_half_of_a_whole_backward_may_take_no_time() {
    for schedule in ["gpipe", "1f1b", "eager-1f1b"] {
        for times in [["1", "2", "0", "0"], ["1", "0", "2", "0"]] {
            assert_eq!(simulate(schedule, [4, 8], times)["makespan"], 33.0, "{schedule} {times:?}");
        }
    }
}
