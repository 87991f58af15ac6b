//! `simulate --schedule`.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::command::Home;

/// The arguments of a schedule with these times, as one would type them.
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

#[test]
fn arguments_that_make_no_schedule_are_errors() {
    let refuses = |schedule: &[&str], ranks: &str, time: &str, expected: Expect| {
        let sizes = ["--ranks", ranks, "--micro-batches", "2", "--backward-input", "1"];
        let times = ["--backward-weight", "1", "--forward", time];
        let arguments = [&["simulate", "--schedule"], schedule, &sizes, &times].concat();
        // What makes a schedule, only one too large to be played, is no mistake.
        let status = if expected.data().contains("are played") { 1 } else { 2 };
        expected.assert_eq(Home::new().run(&arguments).failure(status).lines().next().unwrap());
    };
    refuses(
        &["interleaved"],
        "2",
        "1",
        expect![
            "error: --virtual-stages is missing: this schedule runs several stages on each rank; add 2 or more"
        ],
    );
    refuses(
        &["1f1b", "--virtual-stages", "2"],
        "2",
        "1",
        expect!["error: --virtual-stages 2: this schedule runs 1 on each rank; leave it out"],
    );
    refuses(
        &["1f1b", "--group-size", "2"],
        "2",
        "1",
        expect!["error: --group-size 2: only `interleaved` runs micro-batches in groups; leave it out"],
    );
    refuses(&["1f1b"], "0", "1", expect!["error: a pipeline of 0 ranks: it needs at least 1"]);
    refuses(
        &["1f1b"],
        "4000000000",
        "1",
        expect![
            "error: --ranks 4000000000 of 1 stages make a pipeline of 4000000000: at most 4096 are played; use fewer ranks or --virtual-stages"
        ],
    );
    refuses(
        &["zb-v"],
        "10000000",
        "1",
        expect![
            "error: --ranks 10000000 of 2 stages make a pipeline of 20000000: at most 4096 are played; use fewer ranks or --virtual-stages"
        ],
    );
    refuses(
        &["interleaved", "--virtual-stages", "4000000000"],
        "1",
        "1",
        expect![
            "error: --ranks 1 of 4000000000 stages make a pipeline of 4000000000: at most 4096 are played; use fewer ranks or --virtual-stages"
        ],
    );
}

/// A step that would fill the memory is refused by its size; a longer one with a steady state is not.
#[test]
fn how_much_is_played_is_bounded() {
    let arguments = |ranks, micro_batches| {
        let times = ["--forward", "1", "--backward-input", "1", "--backward-weight", "1"];
        let sizes = ["--ranks", ranks, "--micro-batches", micro_batches];
        [&["simulate", "--schedule", "1f1b"], &sizes[..], &times].concat()
    };
    Home::new().refuses(&arguments("4000", "800"), 1, expect![[r#"
        error: --micro-batches 800: the step has 19208800 instructions over all ranks, and at most 16777216 are played, in two gigabytes of memory; with so many ranks and stages, use 698 or fewer
    "#]]);
    let text = Home::new().run(&arguments("2", "4000000000")).success();
    assert!(text.contains("12000000003"), "{text}");
}

/// Every value that is none, as the first line of what is said to it.
#[test]
fn values_that_are_none_are_errors() {
    let refuses = |schedule: &str, flag: &str, value: &str, expected: Expect| {
        let mut arguments = vec!["simulate", "--schedule", schedule];
        let given = [
            ("--ranks", "2"),
            ("--micro-batches", "2"),
            ("--forward", "1"),
            ("--backward-input", "1"),
            ("--backward-weight", "1"),
        ];
        arguments
            .extend(given.iter().filter(|(name, _)| *name != flag).flat_map(|&(name, value)| [name, value]));
        arguments.extend([flag, value]);
        expected.assert_eq(Home::new().run(&arguments).failure(2).lines().next().unwrap());
    };
    // Work takes time.
    refuses(
        "1f1b",
        "--forward",
        "0",
        expect![
            "error: --forward 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that runs whole)"
        ],
    );
    refuses(
        "gpipe",
        "--forward",
        "0.000",
        expect![
            "error: --forward 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that runs whole)"
        ],
    );
    refuses(
        "zb-h1",
        "--backward-input",
        "0",
        expect![
            "error: --backward-input 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that runs whole)"
        ],
    );
    refuses(
        "zb-v",
        "--backward-weight",
        "0.0",
        expect![
            "error: --backward-weight 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that runs whole)"
        ],
    );
    // A sign, as an argument of its own.
    refuses(
        "1f1b",
        "--forward",
        "-1",
        expect![
            "error: invalid value '-1' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--latency",
        "-0.5",
        expect![
            "error: invalid value '-0.5' for '--latency <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--backward-weight",
        "NaN",
        expect![
            "error: invalid value 'NaN' for '--backward-weight <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--backward-input",
        "inf",
        expect![
            "error: invalid value 'inf' for '--backward-input <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--forward",
        "1e300",
        expect![
            "error: invalid value '1e300' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--forward",
        "1e-400",
        expect![
            "error: invalid value '1e-400' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--forward",
        "10000000000",
        expect![
            "error: invalid value '10000000000' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--forward",
        "0.0000000001",
        expect![
            "error: invalid value '0.0000000001' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    refuses(
        "1f1b",
        "--forward",
        "",
        expect![
            "error: invalid value '' for '--forward <T>': a time is a decimal such as `18.522`, not negative, with at most 9 digits before the point and 9 behind it"
        ],
    );
    // Counts.
    refuses(
        "1f1b",
        "--ranks",
        "-1",
        expect![
            "error: invalid value '-1' for '--ranks <P>': write a whole number from 0 to 4294967295, in digits alone"
        ],
    );
    refuses(
        "1f1b",
        "--micro-batches",
        "99999999999999999999",
        expect![
            "error: invalid value '99999999999999999999' for '--micro-batches <M>': write a whole number from 0 to 4294967295, in digits alone"
        ],
    );
    refuses(
        "1f1b",
        "--ranks",
        "2.5",
        expect![
            "error: invalid value '2.5' for '--ranks <P>': write a whole number from 0 to 4294967295, in digits alone"
        ],
    );
    refuses(
        "interleaved",
        "--virtual-stages",
        "5000000000",
        expect![
            "error: invalid value '5000000000' for '--virtual-stages <V>': write a whole number from 0 to 4294967295, in digits alone"
        ],
    );
    refuses(
        "1f1b",
        "--width",
        "-3",
        expect![
            "error: invalid value '-3' for '--width <COLUMNS>': write a whole number from 0 to 18446744073709551615, in digits alone"
        ],
    );
}

/// A message may take no time, and so may one half of a backward that is one: only the sum counts.
#[test]
fn what_may_take_no_time() {
    let makespan = |schedule, times| simulate(schedule, ["4", "8"], times, &[])["makespan"].as_f64().unwrap();
    for schedule in ["gpipe", "1f1b", "eager-1f1b"] {
        let whole = makespan(schedule, ["1", "2", "0", "0"]);
        assert_eq!((whole, makespan(schedule, ["1", "0", "2", "0"])), (33.0, 33.0), "{schedule}");
    }
    let arguments =
        ["simulate", "--schedule", "1f1b", "--ranks", "4", "--micro-batches", "8", "--forward", "1"];
    let times = ["--backward-input", "0", "--backward-weight", "0"];
    Home::new().refuses(&[&arguments[..], &times].concat(), 2, expect![[r#"
        error: --backward-input 0 and --backward-weight 0: a backward takes the time of both, which is above 0; give it to either
    "#]]);
}
