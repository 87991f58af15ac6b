//! Signals end a run after its step, with everything saved, and a killed run goes on as if it had not been.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{Home, Printed};

/// Ends the process if the test has not said in time that it has ended, so that a lost signal is a failure and not a hang.
pub(crate) fn guard(child: &Child) -> (Sender<()>, JoinHandle<()>) {
    let pid = child.id().to_string();
    let (ended, wait) = channel();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            signal("KILL", &pid);
        }
    });
    (ended, guard)
}

/// Runs a command to its end, or kills it after a time: `None` if it was killed.
fn killed_after(mut command: Command, time: Duration) -> Option<Printed> {
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let (ended, wait) = channel();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        let _ = ended.send(());
        text
    });
    if wait.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
        child.kill().unwrap();
    }
    let stderr = reader.join().unwrap();
    let output = Output { stderr, ..child.wait_with_output().unwrap() };
    output.status.code().map(|_| Printed::new(output, Path::new("nowhere")))
}

pub(crate) fn signal(name: &str, pid: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

/// Sends a signal after a line that begins so, as that of the first step, and returns what the command printed once it has ended.
pub(crate) fn signalled(command: Command, name: &str, line: &str) -> (Option<i32>, String, String) {
    signalled_after(command, name, line, || {})
}

/// As [`signalled`], and does something before.
fn signalled_after(
    mut command: Command,
    name: &str,
    begins: &str,
    first: impl FnOnce(),
) -> (Option<i32>, String, String) {
    let mut child = command.spawn().unwrap();
    let (ended, guard) = guard(&child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(begins) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the run ended before its first step");
    }
    first();
    signal(name, &child.id().to_string());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    ended.send(()).unwrap();
    guard.join().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), rest)
}

/// A command that starts the binary, in its folder and with its output read.
fn piped(mut command: Command, home: &Home) -> Command {
    command.current_dir(home.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).env("COLUMNS", "1000");
    command
}

/// A command that obeys a signal although the tests may have been started with it ignored, by `nohup` for example.
pub(crate) fn obeying(name: &str, home: &Home, args: &str) -> Command {
    let direct = home.command(args);
    let mut command = Command::new("env");
    command.arg(format!("--default-signal={name}")).arg(direct.get_program()).args(direct.get_args());
    piped(command, home)
}

#[test]
fn a_signal_ends_after_the_step_with_tables_a_model_and_a_checkpoint() {
    for name in ["INT", "TERM", "HUP", "USR1"] {
        let home = Home::with(&[("\"steps\": 3", "\"steps\": 1000000"), ("\"every\": 2", "\"every\": 0")]);
        let command = obeying(name, &home, "train run.json --out out");
        let (status, stdout, rest) = signalled(command, name, "step 1/1000000");
        assert_eq!(status, Some(0), "SIG{name}: {rest}");
        let expected = format!("SIG{name}: the run ends after this step, with a checkpoint");
        assert!(rest.contains(&expected), "{rest}");
        assert!(stdout.contains("peak memory"));
        let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
        let steps = summary["steps"].as_u64().unwrap();
        assert_eq!(summary["interrupted"], true);
        assert!(
            steps < 1_000_000 && rest.contains(&format!("ended after step {steps} of 1000000")),
            "{rest}"
        );
        // Every step that was done is in the metrics, and an evaluation after the last.
        assert_eq!(home.read("out/metrics.jsonl").lines().count() as u64, steps + 1);
        assert_eq!(home.names_in("out/checkpoints"), [format!("step-{steps:08}")]);
        home.run("eval out").success();
        let more = steps + 2;
        let resumed = home.run(format!("train run.json --out out --resume --set steps={more}"));
        assert!(
            resumed.stderr.contains(&format!("the run goes on after step {steps}\n")),
            "{}",
            resumed.stderr
        );
        resumed.success();
        assert_eq!(home.read("out/metrics.jsonl").lines().count() as u64, more + 2);
    }
}

/// A run that a signal ends has its state in the checkpoint alone: if that cannot be written, it is an error, and the state goes elsewhere.
#[test]
fn a_signal_ends_a_run_whose_checkpoint_cannot_be_written_with_an_error() {
    for rescue in ["", " --rescue rescued"] {
        let home = Home::with(&[("\"steps\": 3", "\"steps\": 1000000"), ("\"every\": 2", "\"every\": 0")]);
        let command = obeying("TERM", &home, &format!("train run.json --out out{rescue}"));
        let (status, _, rest) = signalled_after(command, "TERM", "step 1/1000000", || {
            home.write("out/checkpoints", "in the way")
        });
        assert_eq!(status, Some(1), "{rest}");
        assert!(rest.contains("error: out/checkpoints"), "{rest}");
        match rescue {
            "" => assert!(rest.contains(" could not be saved: "), "{rest}"),
            _ => assert_eq!(home.names_in("rescued/checkpoints").len(), 1, "{rest}"),
        }
    }
}

#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let home = Home::with(&[("\"steps\": 3", "\"steps\": 30")]);
    let mut command = Command::new("sh");
    let direct = home.command("train run.json --out out");
    command
        .args(["-c", "trap '' HUP USR1; exec \"$0\" \"$@\""])
        .arg(direct.get_program())
        .args(direct.get_args());
    let (status, _, rest) = signalled(piped(command, &home), "HUP", "step 1/30");
    assert_eq!(status, Some(0), "{rest}");
    let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
    assert_eq!(
        (&summary["steps"], &summary["interrupted"]),
        (&Value::from(30), &Value::from(false)),
        "{rest}"
    );
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let home = Home::new();
    // One step takes half a minute.
    home.write(
        "slow.json",
        r#"{
            "model": { "family": "timed", "num_layers": 2, "seq_length": 8, "parameters_per_layer": 100,
                "activation_elements": 10, "forward_ms": 5000 },
            "train_batch_size": 1, "optimizer": { "type": "AdamW", "params": { "lr": 0.1 } }, "steps": 5
        }"#,
    );
    for _ in 0..5 {
        let status = signalled_twice(&home);
        // A first signal that comes before the first step has begun ends the run there, and nothing is left to end at once.
        let has_begun = status != Some(0) || !home.read("out/metrics.jsonl").is_empty();
        if has_begun {
            return assert_eq!(status, Some(130));
        }
    }
    panic!("five runs were asked to end before their first step");
}

/// How a run ends that gets a second signal once it has answered the first.
fn signalled_twice(home: &Home) -> Option<i32> {
    let mut child = obeying("INT", home, "train slow.json --out out --overwrite").spawn().unwrap();
    let (ended, guard) = guard(&child);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in ["the first of 5 steps begins", "SIGINT: the run ends after this step"] {
        while !lines.next().expect("the run goes on").unwrap().starts_with(line) {}
        signal("INT", &child.id().to_string());
    }
    let status = child.wait().unwrap().code();
    ended.send(()).unwrap();
    guard.join().unwrap();
    status
}

/// A run with a checkpoint after every step is killed at random moments of its start, its steps, its writing and its renaming, and started
/// again until it has ended: its weights are those of a run that was never killed.
#[test]
fn a_killed_run_ends_with_the_same_bits() {
    let num_kills_wanted = if crate::sample::in_full() { 100 } else { 10 };
    let home = Home::with(&[
        ("\"steps\": 3", "\"steps\": 12"),
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
    ]);
    let start = Instant::now();
    home.run("train run.json --out whole").success();
    let longest = start.elapsed();
    let expected = std::fs::read(home.path("whole/weights.safetensors")).unwrap();
    let steps_of = |name: &str| -> Vec<(u64, Value)> {
        let lines = home.read(&format!("{name}/metrics.jsonl"));
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["step"].as_u64().unwrap(), line["loss"].clone())).collect()
    };
    let (mut num_kills, mut num_runs, mut random) = (0, 0, 1_u64);
    while num_kills < num_kills_wanted {
        let out = format!("killed-{num_runs}");
        num_runs += 1;
        for attempt in 0.. {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let moment = longest.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64);
            let command = home.command(format!("train run.json --out {out} --resume"));
            // In time every run gets through.
            if let Some(printed) = killed_after(command, moment + longest * (attempt / 20)) {
                printed.success();
                break;
            }
            num_kills += 1;
        }
        assert!(
            std::fs::read(home.path(&format!("{out}/weights.safetensors"))).unwrap() == expected,
            "{out}"
        );
        assert_eq!(steps_of(&out), steps_of("whole"), "{out}");
    }
    println!("{num_kills} kills of {num_runs} runs");
}
