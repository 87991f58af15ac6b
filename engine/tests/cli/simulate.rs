//! `simulate --schedule`.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

/// The times of a schedule: every part of a micro-batch takes 1.
pub(crate) const TIMES: [&str; 6] = ["--forward", "1", "--backward-input", "1", "--backward-weight", "1"];

/// The JSON of a schedule with these sizes and times.
fn simulate(schedule: &str, sizes: [&str; 2], times: [&str; 4], more: &[&str]) -> Value {
    let [forward, input, weight, latency] = times;
    let arguments = [
        &["simulate", "--schedule", schedule, "--ranks", sizes[0], "--micro-batches", sizes[1]][..],
        &["--forward", forward, "--backward-input", input, "--backward-weight", weight],
        &["--latency", latency, "--json"],
        more,
    ];
    serde_json::from_str(&Home::new().run(&arguments.concat()).success()).unwrap()
}

/// p = 4, m = 8, T_F = T_I = T_W = 1: the worked numbers of docs/schedules.md.
#[test]
fn worked_numbers() {
    let makespan = |schedule, latency, more: &[&str]| {
        simulate(schedule, ["4", "8"], ["1", "1", "1", latency], more)["makespan"].as_f64().unwrap()
    };
    let two = ["--virtual-stages", "2"];
    let four = ["--virtual-stages", "4"];
    for (schedule, more, expected) in [
        ("gpipe", &[][..], [33.0, 39.0]),
        ("1f1b", &[], [33.0, 49.0]),
        ("eager-1f1b", &[], [33.0, 39.0]),
        ("interleaved", &two, [28.5, 46.0]),
        ("interleaved", &four, [26.25, 69.0]),
        // Beyond its formula's latency: messages wait for one of two receive buffers.
        ("bfs", &two, [28.5, 38.0]),
        ("bfs", &four, [26.25, 51.0]),
        ("zb-h1", &[], [27.0, 41.0]),
    ] {
        assert_eq!(["0", "1"].map(|latency| makespan(schedule, latency, more)), expected, "{schedule}");
    }
    assert_eq!(makespan("zb-v", "0", &[]), 25.5);
}

/// Profiled settings of the zero-bubble papers (arXiv:2401.10241, tables 5 and 8), milliseconds.
#[test]
fn published_bubbles() {
    let rate = |schedule, sizes, times| {
        let found = simulate(schedule, sizes, times, &[]);
        format!("{:.4}", found["bubble_rate_longest_rank"].as_f64().unwrap())
    };
    let small = |schedule| rate(schedule, ["8", "24"], ["18.522", "18.086", "9.337", "0.601"]);
    assert_eq!(["1f1b", "zb-h1", "zb-h2"].map(small), ["0.2431", "0.1585", "0.1083"]);
    let large = |schedule| rate(schedule, ["16", "48"], ["28.814", "28.760", "19.352", "1.610"]);
    assert_eq!(["1f1b", "zb-h1", "zb-h2"].map(large), ["0.2668", "0.1536", "0.0823"]);
}

#[test]
fn in_flight_counts_are_exact() {
    let in_flight = |schedule, more: &[&str]| {
        simulate(schedule, ["4", "8"], ["1", "1", "1", "0"], more)["peak_in_flight"].clone()
    };
    let counts = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    assert_eq!(in_flight("1f1b", &[]), counts("[4.0, 3.0, 2.0, 1.0]"));
    assert_eq!(in_flight("gpipe", &[]), counts("[8.0, 8.0, 8.0, 8.0]"));
    assert_eq!(in_flight("zb-h1", &[]), counts("[4.0, 3.0, 2.0, 1.0]"));
    assert_eq!(in_flight("zb-h2", &[]), counts("[7.0, 5.0, 3.0, 1.0]"));
    assert_eq!(in_flight("zb-v", &[]), counts("[4.0, 4.0, 4.0, 4.0]"));
    assert_eq!(in_flight("interleaved", &["--virtual-stages", "2"]), counts("[5.5, 4.5, 3.5, 2.5]"));
}

#[test]
fn text_shows_both_measures_and_the_order() {
    let home = Home::new();
    let arguments = ["simulate", "--schedule", "zb-h1", "--ranks", "2", "--micro-batches", "4"];
    let times = ["--forward", "1.5", "--backward-input", "1.5", "--backward-weight", "1"];
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
    .assert_eq(&home.run(&[&arguments[..], &times].concat()).success());
}

/// Arguments after `--schedule`, the number of ranks, the status and the first line of the error.
#[test]
fn arguments_that_make_no_schedule_are_errors() {
    for (schedule, ranks, status, expected) in [
        (
            &["interleaved"][..],
            "2",
            2,
            "`virtual_stages` is missing: this schedule runs several stages on each rank; add 2 or more",
        ),
        (
            &["1f1b", "--virtual-stages", "2"],
            "2",
            2,
            "`virtual_stages` is 2: this schedule runs 1 on each rank; leave it out",
        ),
        (
            &["1f1b", "--group-size", "2"],
            "2",
            2,
            "`group_size` is 2: only `interleaved` runs micro-batches in groups; leave it out",
        ),
        (&["1f1b"], "0", 2, "a pipeline of 0 ranks: it needs at least 1"),
        // A schedule that is only too large is not a mistake.
        (
            &["1f1b"],
            "4000000000",
            1,
            "4000000000 ranks of 1 stages make a pipeline of 4000000000: at most 4096 are simulated; use fewer ranks or virtual stages",
        ),
        (
            &["zb-v"],
            "10000000",
            1,
            "10000000 ranks of 2 stages make a pipeline of 20000000: at most 4096 are simulated; use fewer ranks or virtual stages",
        ),
        (
            &["interleaved", "--virtual-stages", "4000000000"],
            "1",
            1,
            "1 ranks of 4000000000 stages make a pipeline of 4000000000: at most 4096 are simulated; use fewer ranks or virtual stages",
        ),
    ] {
        let sizes = ["--ranks", ranks, "--micro-batches", "2"];
        let arguments = [&["simulate", "--schedule"], schedule, &sizes, &TIMES].concat();
        let error = Home::new().run(&arguments).failure(status);
        assert_eq!(error.lines().next(), Some(format!("error: {expected}").as_str()), "{arguments:?}");
    }
}

/// A step that would fill the memory is refused; a longer one with a steady state is not.
#[test]
fn the_size_of_a_simulated_step_is_limited() {
    let arguments = |ranks, micro_batches| {
        let sizes = ["--ranks", ranks, "--micro-batches", micro_batches];
        [&["simulate", "--schedule", "1f1b"], &sizes[..], &TIMES].concat()
    };
    Home::new().refuses(&arguments("4000", "800"), 1, expect![[r#"
        error: 800 micro-batches: the step has 19208800 instructions over all ranks, and at most 16777216 are simulated, in two gigabytes of memory; with so many ranks and stages, use 698 or fewer
    "#]]);
    let text = Home::new().run(&arguments("2", "4000000000")).success();
    assert!(text.contains("12000000003"), "{text}");
}

/// The first line of the error for a schedule with one argument replaced.
fn refused(schedule: &str, flag: &str, value: &str) -> String {
    let sizes = ["--ranks", "2", "--micro-batches", "2"];
    let given = [&sizes[..], &TIMES].concat();
    let others = given.chunks(2).filter(|pair| pair[0] != flag).flatten().copied();
    let arguments = ["simulate", "--schedule", schedule].into_iter().chain(others).chain([flag, value]);
    let error = Home::new().run(&arguments.collect::<Vec<_>>()).failure(2);
    error.lines().next().unwrap().to_owned()
}

#[test]
fn work_that_takes_no_time_is_an_error() {
    for (schedule, flag, value, work) in [
        ("1f1b", "--forward", "0", "forward"),
        ("gpipe", "--forward", "0.000", "forward"),
        ("zb-h1", "--backward-input", "0", "backward input"),
        ("zb-v", "--backward-weight", "0.0", "backward weight"),
    ] {
        let expected = format!(
            "error: the time of {work} is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half \
             of a backward that the schedule runs whole)"
        );
        assert_eq!(refused(schedule, flag, value), expected, "{schedule}");
    }
}

#[test]
fn values_that_cannot_be_parsed_are_errors() {
    let time = "a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it";
    let count = "write a whole number from 0 to 4294967295, in digits alone";
    let columns = "write a whole number from 0 to 18446744073709551615, in digits alone";
    for (schedule, flag, name, value, rule) in [
        // A sign is not taken for an argument.
        ("1f1b", "--forward", "T", "-1", time),
        ("1f1b", "--latency", "T", "-0.5", time),
        ("1f1b", "--backward-weight", "T", "NaN", time),
        ("1f1b", "--backward-input", "T", "inf", time),
        ("1f1b", "--forward", "T", "1e300", time),
        ("1f1b", "--forward", "T", "1e-400", time),
        ("1f1b", "--forward", "T", "10000000000", time),
        ("1f1b", "--forward", "T", "0.0000000001", time),
        ("1f1b", "--forward", "T", "", time),
        ("1f1b", "--ranks", "P", "-1", count),
        ("1f1b", "--ranks", "P", "2.5", count),
        ("1f1b", "--micro-batches", "M", "99999999999999999999", count),
        ("interleaved", "--virtual-stages", "V", "5000000000", count),
        ("1f1b", "--width", "COLUMNS", "-3", columns),
    ] {
        let expected = format!("error: invalid value '{value}' for '{flag} <{name}>': {rule}");
        assert_eq!(refused(schedule, flag, value), expected);
    }
}

/// A message may take no time, and so may one half of a backward that runs whole: only the sum counts.
#[test]
fn one_half_of_a_whole_backward_may_take_no_time() {
    let makespan = |schedule, times| simulate(schedule, ["4", "8"], times, &[])["makespan"].as_f64().unwrap();
    for schedule in ["gpipe", "1f1b", "eager-1f1b"] {
        let whole = makespan(schedule, ["1", "2", "0", "0"]);
        assert_eq!((whole, makespan(schedule, ["1", "0", "2", "0"])), (33.0, 33.0), "{schedule}");
    }
    let arguments =
        ["simulate", "--schedule", "1f1b", "--ranks", "4", "--micro-batches", "8", "--forward", "1"];
    let times = ["--backward-input", "0", "--backward-weight", "0"];
    Home::new().refuses(&[&arguments[..], &times].concat(), 2, expect![[r#"
        error: the times of backward input and backward weight are both 0: a backward takes time; make one of them more than 0
    "#]]);
}
