//! Two hosts with a slow line between them: steps take what the simulator says, and prefetching and early receives hide what it says that they
//! hide.

use std::{env, fs};

use super::Hosts;
use super::in_a_job::{CASES, LINE, LINES, MEASURED};
use crate::mpi::one_job;

/// How much of what the simulator says is hidden has to be, and how much longer than it says a step may take: this machine does other things
/// meanwhile, and a process looks at its messages every millisecond.
const HIDDEN_MIN: f64 = 0.7;
const ABOVE_MAX: f64 = 0.25;
/// Up to how many bytes Open MPI sends a message without asking the receiver first. By its own limit of 64 KiB, steps over the limited line that
/// hide nothing took 1.6 times as long as predicted.
const UNASKED_BYTES: &str = "2097152";
/// How much shorter it may take: a line gives no time back, but for what a limited one has saved up while nothing was sent.
const BELOW_MAX: f64 = 0.05;

#[test]
fn what_comes_late_is_hidden_as_the_simulator_says() {
    steps_take_what_the_simulator_says(0);
}

#[test]
fn what_a_limited_rate_costs_is_hidden_as_the_simulator_says() {
    steps_take_what_the_simulator_says(1);
}

fn steps_take_what_the_simulator_says(index: usize) {
    let _one_at_a_time = one_job();
    let Some(hosts) = Hosts::new(2, LINES[index]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("measured");
    let this = env::current_exe().expect("a test is a program");
    let command = [
        "env",
        &format!("{MEASURED}={}", file.display()),
        &format!("{LINE}={index}"),
        this.to_str().expect("a name in UTF-8"),
        "mpi::hosts::in_a_job",
        "--ignored",
        "--test-threads=1",
        "--nocapture",
    ];
    let mut job = hosts.job(1, &command);
    job.env("OMPI_MCA_btl_tcp_eager_limit", UNASKED_BYTES);
    let output = job.output().expect("mpirun is there");
    let measured = fs::read_to_string(&file).unwrap_or_default();
    let lines: Vec<[f64; 2]> = measured
        .lines()
        .map(|line| {
            let mut seconds = line.split('\t').skip(1).map(|text| text.parse().expect("seconds"));
            [(); 2].map(|()| seconds.next().expect("two figures"))
        })
        .collect();
    assert_eq!(lines.len(), CASES.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for ((name, _), [predicted, measured]) in CASES.iter().zip(&lines) {
        println!("{name:24} predicted {predicted:.3} s, measured {measured:.3} s");
        assert!(*measured <= predicted * (1.0 + ABOVE_MAX), "{name}: {measured} s of {predicted} s");
        assert!(*measured >= predicted * (1.0 - BELOW_MAX), "{name}: {measured} s of {predicted} s");
    }
    for pair in lines.as_chunks::<2>().0 {
        let [predicted, measured] = [0, 1].map(|of| pair[0][of] - pair[1][of]);
        println!("hidden: predicted {predicted:.3} s, measured {measured:.3} s");
        assert!(
            predicted > 0.0 && measured >= HIDDEN_MIN * predicted,
            "hidden: {measured} s of {predicted} s"
        );
    }
}
