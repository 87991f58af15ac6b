//! `simulate --schedule` as a picture, explained, and of an order of one's own.

use expect_test::{expect, expect_file};
use serde_json::Value;

use crate::command::Home;

const TIMES: [&str; 6] = ["--forward", "1", "--backward-input", "1", "--backward-weight", "1"];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate", "--schedule"], arguments, &TIMES, more].concat()
}

/// The pictures of docs/schedules.md.
#[test]
fn schedules_are_drawn_as_in_the_documentation() {
    let picture = |schedule: &[&str]| {
        let sizes = ["--ranks", "4", "--micro-batches", "8", "--latency", "0.1", "--format", "svg"];
        Home::new().run(&with(schedule, &sizes)).success()
    };
    expect_file!["../../../docs/pictures/schedule-1f1b.svg"].assert_eq(&picture(&["1f1b"]));
    expect_file!["../../../docs/pictures/schedule-interleaved.svg"].assert_eq(&picture(&[
        "interleaved",
        "--virtual-stages",
        "2",
    ]));
    expect_file!["../../../docs/pictures/schedule-zb-h1.svg"].assert_eq(&picture(&["zb-h1"]));
    expect_file!["../../../docs/pictures/schedule-zb-v.svg"].assert_eq(&picture(&["zb-v"]));
}

/// What `show` writes of a run is read back, and is the generator's order.
#[test]
fn an_order_of_ones_own_is_the_schedule_that_it_was_written_from() {
    let home = Home::new();
    let run =
        ["show", "run.json", "--set", "parallel.pipeline=4", "--set", "parallel.data=1", "--format", "csv"];
    for (name, virtual_stages) in [("1f1b", "1"), ("zb-h1", "1"), ("zb-v", "2"), ("interleaved", "2")] {
        let sets = [
            format!("parallel.schedule={name}"),
            format!("parallel.virtual_stages={virtual_stages}"),
            "model.num_layers=8".to_owned(),
        ];
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        home.write("own.csv", home.run(&[&run[..], &sets].concat()).success());
        let figures = |arguments: &[&str]| -> Value {
            serde_json::from_str(&home.run(&with(arguments, &["--latency", "0.3", "--json"])).success())
                .unwrap()
        };
        let sizes = ["--ranks", "4", "--micro-batches", "2", "--virtual-stages", virtual_stages];
        assert_eq!(figures(&["own.csv"]), figures(&[&[name], &sizes[..]].concat()), "{name}");
    }
}

#[test]
fn the_critical_path_of_an_order_is_told() {
    let home = Home::new();
    home.write("own.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    expect![[r#"
                                time   bubble
        a rank's computes          6
        all ranks                9.5  36.84 %
        the longest rank alone   9.5  36.84 %

        micro-batches in flight at most, by rank, until their input gradient: 2, 1

        order of work (F, I and W one column, B two):
        rank 0  F0 F1 .. .. B0 B0 .. B1 B1
        rank 1  .. F0 B0 B0 F1 B1 B1 .. ..

        critical path, 9.5: backward 63.2 %, forward 31.6 %, transfer 5.3 %
               0  +1     rank 0  F u0 m0        the step begins
               1  +0.25  rank 1  RECV s0>s1 m0  the other end was ready
            1.25  +1     rank 1  F u1 m0        its message was there
            2.25  +2     rank 1  B u1 m0        the compute lane was free
            4.25  +1     rank 1  F u1 m1        the compute lane was free
            5.25  +2     rank 1  B u1 m1        the compute lane was free
            7.25  +0.25  rank 0  RECV s1>s0 m1  the other end was ready
             7.5  +2     rank 0  B u0 m1        its message was there
    "#]]
    .assert_eq(&home.run(&with(&["own.csv"], &["--latency", "0.25", "--explain"])).success());

    // As JSON its parts lie end to end, in the unit that times were given in.
    let found = home.run(&with(&["own.csv"], &["--latency", "0.25", "--explain", "--json"])).success();
    let found: Value = serde_json::from_str(&found).unwrap();
    let parts = found["critical_path"].as_array().unwrap();
    assert!(parts.windows(2).all(|pair| pair[0]["end"] == pair[1]["start"]));
    assert_eq!(parts.last().unwrap()["end"], found["makespan"]);
}

#[test]
fn files_that_are_no_schedule_by_themselves_are_errors() {
    let home = Home::new();
    let refuses = |text: &str, expected: expect_test::Expect| {
        home.write("own.csv", text);
        home.refuses(&with(&["own.csv"], &[]), 2, expected);
    };
    refuses(
        "0F0,0F1\n1F0,1F1\n",
        expect![[r#"
        error: --schedule own.csv: it has forwards alone, and times are of whole steps; add the backwards
    "#]],
    );
    refuses(
        "0F0,0B0\n1F0,2F0,2B0,1B0\n",
        expect![[r#"
        error: --schedule own.csv: stages on rank 0: 1, on rank 1: 2; times are of a whole rank, and all ranks are alike: let each have as many, or name a run file of timed layers, where each stage has times of its own
    "#]],
    );
    refuses(
        "0F0,0F1,0B0,0B1,2F0\n1F0,1B0,1F1,1B1\n",
        expect![[r#"
        error: --schedule own.csv: end of row 1: `2B0` is missing: every stage runs every micro-batch, forward and backward; add it
    "#]],
    );
    refuses(
        "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n",
        expect![[r#"
        error: --schedule own.csv: row 1, column 2, `0B0`: no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:
          `0B0` (row 1, column 2) waits for `1B0` (row 2, column 4), which comes after `1F1` (row 2, column 1)
          `1F1` (row 2, column 1) waits for `0F1` (row 1, column 3), which comes after `0B0` (row 1, column 2)
    "#]],
    );
    home.refuses(&with(&["none.csv"], &[]), 2, expect![[r#"
        error: --schedule none.csv: cannot be read: No such file or directory (os error 2); name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
    "#]]);
    home.refuses(
        &with(&["own.csv"], &["--ranks", "2"]),
        2,
        expect![[r#"
        error: --ranks is what an order of one's own says itself: leave it out, or name one of the schedules
    "#]],
    );
    // Of what is missing, a file says the sizes.
    let forward = ["simulate", "--schedule", "own.csv", "--forward", "1"];
    home.refuses(&forward, 2, expect![[r#"
        error: --backward-input is missing: a schedule by itself needs times, which its file does not say; add it, or name a run file
    "#]]);
    home.refuses(&["simulate", "--schedule", "1f1b", "--forward", "1"], 2, expect![[r#"
        error: --ranks is missing: a schedule by itself has ranks, micro-batches and times; add it, or name a run file
    "#]]);
    // Some systems write names in capitals.
    home.write("OWN.CSV", "0F0,0B0\n");
    home.run(&with(&["OWN.CSV"], &[])).success();
    home.refuses(&with(&["zbv"], &[]), 2, expect![[r#"
        error: invalid value 'zbv' for '--schedule <NAME|ORDER.csv>': schedules are gpipe, 1f1b, eager-1f1b, interleaved, bfs, zb-h1, zb-h2, zb-v; an order of one's own is a file, named *.csv

        For more information, try '--help'.
    "#]]);
    // Halves that are work of their own take time, in a file as elsewhere.
    home.write("own.csv", "0F0,0I0,0W0\n");
    let times = ["--forward", "1", "--backward-input", "1", "--backward-weight", "0"];
    home.refuses(&[&["simulate", "--schedule", "own.csv"], &times[..]].concat(), 2, expect![[r#"
        error: --backward-weight 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that runs whole)
    "#]]);
}

#[test]
fn steps_too_long_to_look_at_are_not_drawn() {
    let home = Home::new();
    let sizes = ["--ranks", "4", "--micro-batches", "20000"];
    let long = with(&[&["1f1b"], &sizes[..]].concat(), &[]);
    let drawn = home.run(&[&long[..], &["--format", "svg"]].concat()).failure(1);
    expect![[r#"
        error: the step has 80000 forwards over all stages, and at most 65536 are drawn or explained; use fewer micro-batches, of which a schedule makes the same again and again, or ask for figures alone
    "#]].assert_eq(&drawn);
    assert_eq!(home.run(&[&long[..], &["--explain"]].concat()).failure(1), drawn);
    // Its figures are told all the same, and that the grid is not there.
    assert!(home.run(&long).success().ends_with("left out, it is too long\n"));
    home.refuses(
        &with(&["1f1b", "--ranks", "4", "--micro-batches", "8"], &["--format", "chrome"]),
        2,
        expect![[r#"
            error: --format chrome is of a run: times of a schedule by itself have no unit, and a trace's have; use --format svg, or name a run file of timed layers
        "#]],
    );
}
