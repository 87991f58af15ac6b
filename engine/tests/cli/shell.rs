//! Completions, man pages, and a run file from stdin.

use std::io::Write;
use std::process::Stdio;

use crate::command::{Home, Printed, RUN};

#[test]
fn every_shell_gets_completions_that_name_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(format!("completions {shell}")).success();
        for word in ["train", "check", "simulate", "overwrite"] {
            assert!(script.contains(word), "{shell} {word}");
        }
    }
    // A shell that reads it without running it: any that is there.
    home.write("pipezero.bash", home.run("completions bash").success());
    let status = std::process::Command::new("bash").arg("-n").arg(home.path("pipezero.bash")).status();
    assert!(status.is_ok_and(|status| status.success()));
}

#[test]
fn every_command_has_a_man_page() {
    let home = Home::new();
    home.run("man --out pages/man1").success();
    let commands = [
        "",
        "-check",
        "-checkpoint",
        "-checkpoint-export",
        "-checkpoint-inspect",
        "-checkpoint-reshape",
        "-checkpoint-verify",
        "-compare",
        "-completions",
        "-doctor",
        "-eval",
        "-generate",
        "-launch",
        "-man",
        "-plan",
        "-profile",
        "-resume",
        "-show",
    ];
    let commands = commands.into_iter().chain(["-simulate", "-tokenize", "-train"]);
    let mut expected: Vec<String> = commands.map(|name| format!("pipezero{name}.1")).collect();
    expected.sort();
    assert_eq!(home.names_in("pages/man1"), expected);
    assert!(home.read("pages/man1/pipezero-train.1").contains(r"\-\-overwrite"));
}

#[test]
fn a_run_file_comes_from_stdin() {
    let home = Home::new();
    let run = |line: &str, text: &str| {
        let mut child = home.command(line).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Printed::new(child.wait_with_output().unwrap(), home.path("run.json").parent().unwrap())
    };
    assert_eq!(run("check - --json", RUN).success(), home.run("check run.json --json").success());
    let error = run("check -", "{\n  \"steps\": ").failure(2);
    assert!(error.contains("[stdin:1:1]"), "{error}");
    run("train -", RUN).success();
    assert!(home.path("runs/stdin/summary.json").exists());
}
