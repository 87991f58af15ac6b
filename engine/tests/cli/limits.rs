//! Limits that the system sets to a process: an error that names the limit and the command that raises it, and never an end by a signal.

use std::process::{Command, Output};

use crate::command::{Home, RUN};

/// Starts the program under `ulimit OPTION VALUE`.
fn under(home: &Home, limit: &str, arguments: &str) -> Output {
    let script = format!("ulimit -c 0; ulimit {limit}; exec \"$0\" {arguments}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_pipezero")]).current_dir(home.path("."));
    command.output().expect("bash starts")
}

/// Whether the program itself starts there.
fn starts(home: &Home, limit: &str) -> bool {
    under(home, limit, "--version").status.success()
}

/// Each limit with values from far too small to large enough, for each of these commands.
#[test]
fn no_limit_ends_a_command_by_a_signal() {
    let home = Home::new();
    std::fs::write(home.path("run.json"), RUN).unwrap();
    let limits = [
        ("-v", &["70000", "100000", "150000", "250000", "400000", "800000"][..]),
        ("-d", &["1000", "5000", "20000", "60000", "200000"]),
        ("-f", &["0", "1", "16", "64", "220"]),
        ("-n", &["4", "8", "12", "16", "24", "64"]),
        ("-s", &["64", "128", "1024"]),
    ];
    let commands = [
        "check run.json",
        "plan run.json",
        "train run.json --out out --overwrite",
        "profile run.json --out costs.json --overwrite",
    ];
    let mut num_started = 0;
    for (option, values) in limits {
        for value in values {
            let limit = format!("{option} {value}");
            if !starts(&home, &limit) {
                continue;
            }
            for command in commands {
                let output = under(&home, &limit, command);
                let stderr = String::from_utf8_lossy(&output.stderr);
                let status = output.status.code();
                assert!(matches!(status, Some(0..=2)), "{limit}: {command}: {:?}: {stderr}", output.status);
                assert!(!stderr.contains("panicked"), "{limit}: {command}: {stderr}");
                if status != Some(0) {
                    assert!(stderr.contains("error: "), "{limit}: {command}: {stderr}");
                }
                num_started += 1;
            }
        }
    }
    assert!(num_started > 40, "{num_started}");
}

/// The error of a limit that the plan is compared with has the limit, its value, the need and the command.
#[test]
fn a_limit_that_the_run_exceeds_is_refused_before_it_starts() {
    let home = Home::new();
    let larger = RUN.replace("\"hidden_size\": 16", "\"hidden_size\": 256");
    std::fs::write(home.path("run.json"), larger).unwrap();
    let cases = [
        ("-v 200000", "its limit of address space is 195 MiB: raise it with `ulimit -v unlimited`"),
        ("-d 60000", "its limit of data is 59 MiB: raise it with `ulimit -d unlimited`"),
        ("-f 64", "its limit of the size of a file is 64 KiB: raise it with `ulimit -f unlimited`"),
        ("-n 16", "its limit of open files is 16: raise it with `ulimit -n 65536`"),
    ];
    for (limit, expected) in cases {
        let output = under(&home, limit, "train run.json --out out --overwrite");
        let stderr = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(1), "{limit}: {stderr}");
        assert!(stderr.contains("the run needs ") && stderr.contains(expected), "{limit}: {stderr}");
    }
}

/// The system would kill it without a word once the limit is reached: the run ends before that, with a checkpoint.
#[test]
fn a_run_ends_with_a_checkpoint_before_its_processor_time_is_used_up() {
    let home = Home::new();
    let output = under(&home, "-t 2", "train run.json --out out --overwrite --set steps=1000000");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "{:?}: {stderr}", output.status);
    assert!(stderr.contains("SIGXCPU"), "{stderr}");
    assert_eq!(home.names_in("out/checkpoints").iter().filter(|name| name.starts_with("step-")).count(), 1);
}
