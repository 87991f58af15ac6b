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

        micro-batches in flight at most, by rank: 2, 1

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
        expected.assert_eq(Home::new().run(&arguments).failure(2).lines().next().unwrap());
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
            "error: 16000000000 forwards in a step, over all stages: a program has at most 8388608; use fewer ranks, stages or micro-batches"
        ],
    );
    for time in ["-1", "NaN", "1e400", ""] {
        let sizes = ["--ranks", "2", "--micro-batches", "2", "--backward-input", "1"];
        let forward = format!("--forward={time}");
        let arguments =
            [&["simulate", "--schedule", "1f1b"][..], &sizes, &["--backward-weight", "1", &forward]].concat();
        let error = Home::new().run(&arguments).failure(2);
        assert!(error.contains("a time is a decimal such as `18.522`"), "{time}: {error}");
    }
}
