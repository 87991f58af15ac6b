//! Ctrl-C ends a run after the step, with everything saved.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::command::Home;

/// Ends the process if the test has not said in time that it has ended, so that a lost signal is a failure and not a hang.
fn guard(child: &Child) -> (Sender<()>, JoinHandle<()>) {
    let pid = child.id().to_string();
    let (ended, wait) = channel();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            signal("KILL", &pid);
        }
    });
    (ended, guard)
}

fn signal(name: &str, pid: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

#[test]
fn ctrl_c_ends_after_the_step_with_tables_and_a_model() {
    let home = Home::with(&[("\"steps\": 3", "\"steps\": 1000000"), ("\"every\": 2", "\"every\": 0")]);
    let mut child = home.command("train run.json --out out").spawn().unwrap();
    let (ended, guard) = guard(&child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("step 1/1000000") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the run ended before its first step");
    }
    // A step's line is in the file before the step is reported.
    assert!(home.read("out/metrics.jsonl").starts_with("{\"step\":1,"));
    signal("INT", &child.id().to_string());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    ended.send(()).unwrap();
    guard.join().unwrap();

    assert_eq!(output.status.code(), Some(0), "{rest}");
    assert!(rest.contains("ending after this step; press Ctrl-C again to end at once"), "{rest}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("peak memory"));
    let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
    let steps = summary["steps"].as_u64().unwrap();
    assert_eq!(summary["interrupted"], true);
    assert!(steps < 1_000_000 && rest.contains(&format!("ended after step {steps} of 1000000")), "{rest}");
    // Every step that was done is in the metrics, and an evaluation after the last.
    assert_eq!(home.read("out/metrics.jsonl").lines().count() as u64, steps + 1);
    home.run("eval out").success();
}
