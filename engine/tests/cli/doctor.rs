//! `doctor`: a report with all its parts, checks that fail for a reason, and what it refuses to start with.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

/// The headings of a report.
pub(crate) const SECTIONS: [&str; 10] = [
    "Summary",
    "1. Hosts",
    "2. Groups and lanes",
    "3. Parity",
    "4. The run itself",
    "5. Clocks",
    "6. Disk",
    "7. Rules",
    "Run file",
    "Resolved run",
];

/// The checks of a report that came to this: part and what was checked.
fn checks(report: &Value, verdict: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = report["checks"].as_array().unwrap().iter();
    let found = all.filter(|check| check["verdict"] == verdict);
    found.map(|check| (text(&check["part"]), text(&check["what"]))).collect()
}

#[test]
fn a_run_that_will_do_has_a_report_with_all_parts() {
    let home = Home::new();
    let printed = home.run("doctor run.json");
    for part in ["hosts", "groups and lanes", "parity", "the run itself", "clocks", "disk"] {
        assert!(printed.stderr.contains(&format!(" s  {part}\n")), "{}", printed.stderr);
    }
    let stdout = printed.success();
    assert!(stdout.contains("memory: as planned on all 4 ranks"), "{stdout}");
    assert!(stdout.contains("traffic: as planned on all 4 ranks"), "{stdout}");
    assert!(stdout.contains("bits: 8 small models of 2 steps are the same"), "{stdout}");
    assert!(stdout.contains(": 0 failed, "), "{stdout}");
    // Nothing else is left behind.
    assert_eq!(home.names(), ["doctor-run.txt", "run.json", "text.txt"]);
    let report = home.read("doctor-run.txt");
    let headings: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(headings, SECTIONS);
    for expected in [
        "unshard ",
        "reduce ",
        "activation ",
        "gradient ",
        "add_tied ",
        "gradient_norm ",
        "measured = planned",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    // It is replaced by the next.
    home.write("doctor-run.txt", "pipezero doctor 0.0.1 of run.json\n");
    let json = home.json("doctor run.json --json");
    assert_eq!(checks(&json, "failed"), []);
    assert!(checks(&json, "ok").len() > 15, "{json}");
    assert!(home.read("doctor-run.txt").contains("== Summary"));
}

#[test]
fn what_would_fail_is_found_before_it_does_and_the_rest_is_examined_all_the_same() {
    let home = Home::new();
    std::fs::remove_file(home.path("text.txt")).unwrap();
    home.write("a-file", "a thesis");
    let alone = "--set parallel={\"pipeline\":1,\"data\":1}";
    let failed = |arguments: &str| {
        let printed = home.run(format!("doctor run.json --json --out report.txt {alone} {arguments}"));
        assert_eq!(printed.status, Some(1), "{}", printed.stderr);
        assert!(printed.stderr.ends_with("failed: see report.txt\n"), "{}", printed.stderr);
        let json: Value = serde_json::from_str(&printed.stdout).unwrap();
        assert!(checks(&json, "ok").contains(&("parity".to_owned(), "bits".to_owned())));
        let failed = checks(&json, "failed").into_iter();
        failed.map(|(part, what)| format!("{part}: {what}")).collect::<Vec<_>>()
    };
    assert_eq!(failed(""), ["run: text"]);
    // Below a file there is no folder.
    assert_eq!(failed("--run-dir a-file/run"), ["run: text", "disk: run directory"]);
    home.write("text.txt", "a thesis ".repeat(1000));
    // No machine has a million times the memory of this one.
    let memory = failed("--set model.hidden_size=4194304");
    assert!(memory[0].starts_with("hosts: memory of "), "{memory:?}");
    assert!(memory.contains(&"run: steps".to_owned()), "{memory:?}");
    let report = home.read("report.txt");
    assert!(report.contains("the run needs ") && report.contains("planned "), "{report}");
}

#[test]
fn mistakes_are_said_before_anything_is_tried() {
    let home = Home::new();
    std::fs::create_dir(home.path("folder")).unwrap();
    home.refuses(
        "doctor",
        expect![[r#"
            $ missing.json
            [2] error: not a valid run, 1 mistake:
              x missing.json: cannot read the run file: No such file or directory (os error 2)
            $ run.json --set model.hidden_size=17
            [2] error: not a valid run with --set model.hidden_size=17, 1 mistake:
              x `model.num_attention_heads` is 2, but `model.hidden_size` is 17, which 2 does not divide: every head has the same width
               ,-[run.json:6:28]
             5 |     "hidden_size": 16,
             6 |     "num_attention_heads": 2,
               :                            ^
             7 |     "seq_length": 16
               `----
              help: use a divisor such as 1
            $ run.json --out folder
            [1] error: folder is a folder: name a file with --out, such as folder/doctor.txt
            $ run.json --out run.json
            [1] error: run.json is not a report of doctor, and nothing else is replaced: name another file with --out, or remove this one yourself
            $ run.json --out none/report.txt
            [1] error: cannot write none/report.txt: No such file or directory (os error 2); name a file with --out in a folder that can be written to
        "#]],
    );
    assert_eq!(home.names(), ["folder", "run.json", "text.txt"]);
}
