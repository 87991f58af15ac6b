//! `profile`: a costs file that `simulate` reads, and what cannot be measured or kept.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::command::{Home, Printed};

const PROFILE: &str = "profile run.json --out costs.json --steps 3";

/// The last line of stderr, which is the error: lines before it say what is to be known of the run.
#[track_caller]
fn error(printed: Printed, status: i32) -> String {
    printed.failure(status).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_profile_is_what_simulate_reads() {
    let home = Home::new();
    let printed = home.run(PROFILE).success();
    for expected in [
        "unit ",
        "h.*.attn, h.*.mlp",
        "unshard",
        "activation",
        "sizes of messages were probed beside",
        "step: ",
        "3 typical",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let costs: Value = serde_json::from_str(&home.read("costs.json")).unwrap();
    assert_eq!((&costs["version"], &costs["host"]["ranks"]), (&1.into(), &4.into()));
    // The tied embedding and head, and of four blocks the first, which embeds positions, the last, which has a norm, and
    // the two between, which are alike.
    assert_eq!(costs["units"].as_array().unwrap().len(), 5);
    let kinds = costs["messages"].as_array().unwrap().iter().map(|of| of["kind"].as_str().unwrap());
    let expected = ["unshard", "reduce", "activation", "gradient", "add_tied", "gradient_norm"];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    for message in costs["messages"].as_array().unwrap() {
        let sizes = message["sizes"].as_array().unwrap();
        let is_probed = |size: &&Value| size.get("probed").is_some();
        let (probed, own): (Vec<_>, Vec<_>) = sizes.iter().partition(is_probed);
        // The norm has one size, whatever the run.
        assert_eq!(probed.is_empty(), message["kind"] == "gradient_norm", "{message}");
        assert!(!own.is_empty() && probed.iter().all(|size| size["probed"] == true), "{message}");
    }
    assert!(!home.path("costs.json.partial").exists());
    // Nothing of the run has to be assumed.
    let simulated = home.run("simulate run.json --costs costs.json --json");
    let (stdout, stderr) = (simulated.stdout.clone(), simulated.stderr.clone());
    let json: Value =
        serde_json::from_str(&simulated.success()).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    assert_eq!(json["assumptions"].as_array().map(Vec::len), Some(0), "{stdout}");
}

#[test]
fn a_costs_file_is_not_overwritten_unasked() {
    let home = Home::new();
    home.write("costs.json", "mine");
    let expected =
        "error: costs.json already exists: name another file with --out, or replace it with --overwrite";
    assert_eq!(error(home.run(PROFILE), 1), expected);
    // Nor is anything else, asked or not: the run file least of all.
    for file in ["costs.json", "run.json"] {
        let before = home.read(file);
        let printed = home.run(format!("profile run.json --out {file} --overwrite"));
        assert!(
            error(printed, 1)
                .starts_with(&format!("error: {file} is not a costs file: --overwrite only replaces"))
        );
        assert_eq!(home.read(file), before);
    }
    std::fs::remove_file(home.path("costs.json")).unwrap();
    home.run(PROFILE).success();
    let before = home.read("costs.json");
    home.run(format!("{PROFILE} --overwrite")).success();
    assert!(home.read("costs.json").contains("\"workload\"") && home.read("costs.json") != before);
}

#[test]
fn costs_that_cannot_be_kept_are_not_measured() {
    let home = Home::new();
    std::fs::create_dir(home.path("folder")).unwrap();
    for (out, expected) in [
        ("folder", "folder is a folder: name a file with --out, such as folder/costs.json"),
        ("none/costs.json", "cannot write none/costs.json: No such file or directory (os error 2)"),
        ("text.txt/costs.json", "cannot write text.txt/costs.json: Not a directory (os error 20)"),
    ] {
        let printed = home.run(format!("profile run.json --overwrite --out {out}"));
        assert!(!printed.stderr.contains("step 1/"), "{}", printed.stderr);
        let error = error(printed, 1);
        assert!(error.starts_with(&format!("error: {expected}")), "{error}");
    }
}

/// Nothing of the costs file is there before all of it is, whenever the process ends.
#[test]
fn a_profile_that_is_killed_leaves_nothing() {
    let home = Home::new();
    let mut child = home.command("profile run.json --out costs.json --steps 1000").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("step 1/") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the profile ended before its first step");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(home.names(), ["run.json", "text.txt"]);
}

#[test]
fn no_steps_are_no_profile() {
    let home = Home::new();
    let printed = home.run("profile run.json --out costs.json --steps 0");
    let expected = "error: 0 steps to record: costs are means over recorded steps; record at least 1";
    assert_eq!(error(printed, 2), expected);
    let printed = home.run("profile run.json --out costs.json --steps -1");
    assert!(printed.failure(2).contains("'-1'"));
    // Each step's events are kept, and no host has so much memory.
    let most = u64::MAX.to_string();
    let printed = home.run(format!("profile run.json --out costs.json --steps {most}")).failure(1);
    assert!(printed.contains(&format!("error: --steps {most}: what happens in them is kept")), "{printed}");
    assert!(home.run("profile run.json").failure(2).contains("--out <COSTS.json>"));
    assert!(!home.path("costs.json").exists());
}

#[test]
fn kernels_of_a_cpu_are_not_timed() {
    let home = Home::new();
    let error = error(home.run("profile run.json --out costs.json --kernels kernels.csv"), 2);
    assert!(error.contains("kernels are timed on GPUs, and this run computes on the CPU"), "{error}");
    assert!(!home.path("costs.json").exists());
}

#[test]
fn what_cannot_be_trained_cannot_be_profiled() {
    let home = Home::with(&[("\"num_layers\": 4", "\"num_layers\": 1")]);
    assert!(home.run(PROFILE).failure(2).contains("not a valid run"));
    let home = Home::new();
    std::fs::remove_file(home.path("text.txt")).unwrap();
    assert!(error(home.run(PROFILE), 2).starts_with("error: `data.text`"));
    assert!(!home.path("costs.json").exists() && !home.path("costs.json.partial").exists());
}
