//! The progress bar, on a terminal of tmux: it stays on one line, and the report follows below it.

#![cfg(unix)]

use std::process::Command;

use crate::command::Home;

/// What `tmux` prints; `None` where there is none.
fn tmux(socket: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("tmux").args(["-L", socket, "-f", "/dev/null"]).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_terminal_shows_a_bar_on_one_line_and_the_report_below() {
    let home = Home::new();
    let socket = format!("pipezero-{}", std::process::id());
    let binary = env!("CARGO_BIN_EXE_pipezero");
    let folder = home.path("").display().to_string();
    // Whoever waits for `done` goes on when the run has ended; `cat` keeps the terminal.
    let run = format!(
        "cd {folder} && {binary} train run.json --out out; echo ended $?; tmux -L {socket} wait-for -S done; exec cat"
    );
    if tmux(&socket, &["-V"]).is_none() {
        eprintln!("left out: there is no tmux");
        return;
    }
    tmux(&socket, &["new-session", "-d", "-x", "100", "-y", "60", &run]);
    let waited =
        Command::new("timeout").args(["60", "tmux", "-L", &socket, "wait-for", "done"]).status().unwrap();
    let screen = tmux(&socket, &["capture-pane", "-p"]).unwrap_or_default();
    tmux(&socket, &["kill-server"]);
    assert!(waited.success() && screen.contains("ended 0"), "{screen}");
    let bars: Vec<&str> = screen.lines().filter(|line| line.contains("3/3 steps")).collect();
    assert_eq!(bars.len(), 1, "{screen}");
    assert!(bars[0].contains("loss ") && bars[0].chars().count() <= 100, "{screen}");
    let below: String = screen.split_once("3/3 steps").map(|(_, below)| below.to_owned()).unwrap_or_default();
    assert!(below.contains("nats per token") && below.contains("run directory: out"), "{screen}");
    // Evaluations stand above the bar.
    assert!(!below.contains("validation loss ") && screen.contains("step 2  validation loss"), "{screen}");
}
