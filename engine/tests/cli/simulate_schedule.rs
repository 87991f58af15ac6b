//! `simulate --schedule` as a picture, explained, and of a schedule file.

use expect_test::{expect, expect_file};

use crate::command::Home;
use crate::simulate::TIMES;

/// Simulates a schedule with these times.
fn simulate(schedule: &str) -> String {
    format!("simulate {TIMES} --schedule {schedule}")
}

/// The pictures of docs/schedules.md.
#[test]
fn schedules_are_drawn_as_in_the_documentation() {
    let picture = |schedule: &str| {
        let sizes = "--ranks 4 --micro-batches 8 --latency 0.1 --format svg";
        Home::new().run(simulate(schedule) + " " + sizes).success()
    };
    expect_file!["../../../docs/pictures/schedule-1f1b.svg"].assert_eq(&picture("1f1b"));
    expect_file!["../../../docs/pictures/schedule-interleaved.svg"]
        .assert_eq(&picture("interleaved --virtual-stages 2"));
    expect_file!["../../../docs/pictures/schedule-zb-h1.svg"].assert_eq(&picture("zb-h1"));
    expect_file!["../../../docs/pictures/schedule-zb-v.svg"].assert_eq(&picture("zb-v"));
}

/// `show --format csv` writes a file that is read back as the order of the generator.
#[test]
fn a_schedule_file_that_show_wrote_is_the_generated_schedule() {
    let home = Home::new();
    let show =
        "show run.json --set parallel.pipeline=4 --set parallel.data=1 --set model.num_layers=8 --format csv";
    for (name, stages) in [("1f1b", "1"), ("zb-h1", "1"), ("zb-v", "2"), ("interleaved", "2")] {
        let parallel = format!("--set parallel.schedule={name} --set parallel.virtual_stages={stages}");
        home.write("own.csv", home.run(format!("{show} {parallel}")).success());
        let figures = |schedule: &str| home.json(simulate(schedule) + " --latency 0.3 --json");
        let sizes = format!("{name} --ranks 4 --micro-batches 2 --virtual-stages {stages}");
        assert_eq!(figures("own.csv"), figures(&sizes), "{name}");
    }
}

#[test]
fn the_critical_path_of_an_order_is_printed() {
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
            1.25  +1     rank 1  F u1 m0        its message had arrived
            2.25  +2     rank 1  B u1 m0        the compute lane was free
            4.25  +1     rank 1  F u1 m1        the compute lane was free
            5.25  +2     rank 1  B u1 m1        the compute lane was free
            7.25  +0.25  rank 0  RECV s1>s0 m1  the other end was ready
             7.5  +2     rank 0  B u0 m1        its message had arrived
    "#]]
    .assert_eq(&home.run(simulate("own.csv --latency 0.25 --explain")).success());

    // As JSON its parts lie end to end, in the unit that times were given in.
    let found = home.json(simulate("own.csv --latency 0.25 --explain --json"));
    let parts = found["critical_path"].as_array().unwrap();
    assert!(parts.windows(2).all(|pair| pair[0]["end"] == pair[1]["start"]));
    assert_eq!(parts.last().unwrap()["end"], found["makespan"]);
}

/// The text of the schedule file, and the error after its name.
#[test]
fn files_that_are_not_a_whole_step_are_errors() {
    let home = Home::new();
    for (text, expected) in [
        ("0F0,0F1\n1F0,1F1\n", "it has only forwards, and a step has backwards too; add them"),
        (
            "0F0,0B0\n1F0,2F0,2B0,1B0\n",
            "rank 0 has 1 stages and rank 1 has 2, but times are those of a whole rank, the same for all ranks: place as many stages on each rank, or name a run file of timed layers, where each stage has its own times",
        ),
        (
            "0F0,0F1,0B0,0B1,2F0\n1F0,1B0,1F1,1B1\n",
            "end of row 1: `2B0` is missing: every stage runs every micro-batch, forward and backward; add it",
        ),
        (
            "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n",
            "row 1, column 2, `0B0`: no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:\n  `0B0` (row 1, column 2) waits for `1B0` (row 2, column 4), which comes after `1F1` (row 2, column 1)\n  `1F1` (row 2, column 1) waits for `0F1` (row 1, column 3), which comes after `0B0` (row 1, column 2)",
        ),
    ] {
        home.write("own.csv", text);
        let error = home.run(simulate("own.csv")).failure(2);
        assert_eq!(error, format!("error: schedule file own.csv: {expected}\n"));
    }
    // Some systems write names in capitals.
    home.write("OWN.CSV", "0F0,0B0\n");
    home.run(simulate("OWN.CSV")).success();
}

#[test]
fn arguments_that_do_not_fit_a_schedule_file_are_errors() {
    let home = Home::new();
    // The halves of its backward run apart.
    home.write("own.csv", "0F0,0I0,0W0\n");
    home.refuses("simulate --forward 1 --schedule", expect![[r#"
        $ none.csv --backward-input 1 --backward-weight 1
        [2] error: schedule file none.csv: cannot be read: No such file or directory (os error 2); name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
        $ own.csv --backward-input 1 --backward-weight 1 --ranks 2
        [2] error: --ranks is determined by the schedule file: leave it out, or name a generated schedule
        $ own.csv
        [2] error: --backward-input is missing: a schedule needs times, which its file does not have; add it, or name a run file
        $ 1f1b
        [2] error: --ranks is missing: a schedule needs ranks, micro-batches and times; add it, or name a run file
        $ zbv --backward-input 1 --backward-weight 1
        [2] error: invalid value 'zbv' for '--schedule <NAME|ORDER.csv>': the schedules are gpipe, 1f1b, eager-1f1b, interleaved, bfs, zb-h1, zb-h2, zb-v; a file with your own order is named *.csv
        $ own.csv --backward-input 1 --backward-weight 0
        [2] error: the time of backward weight is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward that the schedule runs whole)
    "#]]);
}

#[test]
fn steps_too_long_to_look_at_are_not_drawn() {
    let home = Home::new();
    let long = simulate("1f1b --ranks 4 --micro-batches 20000");
    home.refuses(&long, expect![[r#"
        $ --format svg
        [1] error: the step has 80000 forwards over all stages, and at most 65536 are drawn or explained; use fewer micro-batches, since a schedule repeats the same pattern, or ask for figures only
        $ --explain
        [1] error: the step has 80000 forwards over all stages, and at most 65536 are drawn or explained; use fewer micro-batches, since a schedule repeats the same pattern, or ask for figures only
    "#]]);
    // Its figures are printed all the same, and a line says that the grid is left out.
    assert!(home.run(&long).success().ends_with("left out, it is too long\n"));
}
