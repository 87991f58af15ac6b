//! fp16 in `train`: what is skipped is said, counted and scaled down from.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

/// A scale at which the first steps overflow: 2^32, halved at the second overflow and every later one.
const FP16: &str = r#"fp16={"enabled": true, "initial_scale_power": 32}"#;

#[test]
fn skipped_steps_are_said_and_counted() {
    let home = Home::new();
    let printed = home.run(&["train", "run.json", "--out", "out", "--set", FP16]);
    let warnings: Vec<&str> = printed.stderr.lines().filter(|line| line.contains(" skipped: ")).collect();
    expect![[r#"
        warning: step 1 skipped: a gradient overflowed in fp16 at loss scale 4294967296; no weight was changed
        warning: step 2 skipped: a gradient overflowed in fp16 at loss scale 4294967296; no weight was changed
        warning: step 3 skipped: a gradient overflowed in fp16 at loss scale 2147483648; no weight was changed"#]].assert_eq(&warnings.join("\n"));
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

#[test]
fn runs_that_need_no_scale_have_none() {
    let home = Home::new();
    let printed = home.run(&["train", "run.json", "--out", "out", "--set", "bf16.enabled=true"]);
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
