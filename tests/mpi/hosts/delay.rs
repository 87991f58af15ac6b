//! Two hosts whose line delivers late: prefetching and early receives hide what the simulator says that they hide.

use std::{env, fs};

use super::in_a_job::{CASES, LATE_MS, MEASURED};
use super::{Hosts, Line};
use crate::mpi::one_job;

/// How much of what the simulator says is hidden has to be, and how much longer than it says a step may take: this machine does other things
/// meanwhile, and a process looks at its messages every millisecond.
const HIDDEN_MIN: f64 = 0.7;
const ABOVE_MAX: f64 = 0.25;

#[test]
fn what_comes_late_is_hidden_as_the_simulator_says() {
    let _one_at_a_time = one_job();
    let Some(hosts) = Hosts::new(2, Line::Late { ms: LATE_MS }) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("measured");
    let this = env::current_exe().expect("a test is a program");
    let command = [
        "env",
        &format!("{MEASURED}={}", file.display()),
        this.to_str().expect("a name in UTF-8"),
        "mpi::hosts::in_a_job",
        "--ignored",
        "--test-threads=1",
        "--nocapture",
    ];
    let output = hosts.job(1, &command).output().expect("mpirun is there");
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
        assert!(*measured >= predicted * 0.95, "{name}: a line that is late: {measured} s of {predicted} s");
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
