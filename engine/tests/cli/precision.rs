//! fp16 in `train`: skipped steps are reported and counted, and lower the loss scale.

use expect_test::expect;
use serde_json::Value;

use crate::command::{Home, Printed};

/// A run with a scale at which the first steps overflow: 2^32, halved at the second overflow and every later one.
const FP16: &str =
    r#"train run.json --out out --overwrite --set fp16={"enabled":true,"initial_scale_power":32}"#;

#[test]
fn skipped_steps_are_reported_and_counted() {
    let home = Home::new();
    let printed = home.run(FP16);
    let warnings: Vec<&str> = printed.stderr.lines().filter(|line| line.contains(" skipped: ")).collect();
    expect![[r#"
        warning: step 1 skipped: a gradient overflowed in fp16 at loss scale 4294967296; the scale stays; no weight was changed
        warning: step 2 skipped: a gradient overflowed in fp16 at loss scale 4294967296; the scale is now 2147483648; no weight was changed
        warning: step 3 skipped: a gradient overflowed in fp16 at loss scale 2147483648; the scale is now 1073741824; no weight was changed"#]].assert_eq(&warnings.join("\n"));
    let last = printed.stderr.lines().find(|line| line.starts_with("step 3/3")).unwrap();
    assert!(last.contains("  loss scale 2147483648  "), "{last}");
    let tables = printed.success();
    let table: Vec<&str> =
        tables.split("\n\n").find(|table| table.starts_with("fp16")).unwrap().lines().collect();
    expect![[r#"
        fp16  skipped steps  last loss scale
        run               3       2147483648"#]]
    .assert_eq(&table.join("\n"));
    let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
    assert_eq!((&summary["steps"], &summary["skipped_steps"]), (&Value::from(3), &Value::from(3)));
    assert_eq!(summary["loss_scale"], 2_147_483_648.0);
}

/// The log has it at a detailed level, and does not repeat it as a warning.
#[test]
fn a_skipped_step_is_reported_once() {
    let home = Home::new();
    for level in ["warn", "info"] {
        let output = home.command(FP16).env("PIPEZERO_LOG", level).output().unwrap();
        let stderr = Printed::new(output, &home.path("")).stderr;
        let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("overflowed")).collect();
        assert_eq!(lines.len(), 3, "one line for each of three steps at {level}: {stderr}");
        assert!(lines.iter().all(|line| line.starts_with("warning: step ")), "{stderr}");
    }
}

#[test]
fn runs_that_need_no_scale_have_none() {
    let home = Home::new();
    let printed = home.run("train run.json --out out --set bf16.enabled=true");
    assert!(
        !printed.stderr.contains("skipped") && !printed.stderr.contains("loss scale"),
        "{}",
        printed.stderr
    );
    assert!(printed.stderr.contains(", 1f1b, bf16, 3 steps of "), "{}", printed.stderr);
    assert!(!printed.success().contains("loss scale"));
    let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
    assert_eq!((&summary["skipped_steps"], &summary["loss_scale"]), (&Value::from(0), &Value::Null));
    let share = |key: &str| summary[key].as_f64().unwrap();
    assert!((0.0..=share("idle_share")).contains(&share("exposed_comm_share")), "{summary}");
}
