//! Defaults of DeepSpeed's that a release changed: which one a file gets that leaves the key out.

use expect_test::expect;

use super::{RESOURCES, file, listed};
use crate::{NoticeKind, RunFile};

/// The defaults that are named of the valid file with changes.
fn defaults(changes: &[(&str, &str)]) -> String {
    let file = RunFile::parse("run.json", &file(changes)).expect("JSON");
    let (_, notices) = file.resolve(RESOURCES).expect("a valid run");
    let defaults = notices.iter().filter(|notice| notice.kind() == NoticeKind::Default);
    let lines: String = defaults.map(|notice| format!("{notice}\n")).collect();
    if lines.is_empty() { "none".to_owned() } else { lines }
}

#[test]
fn are_named_where_the_key_is_not_written_and_has_an_effect() {
    let cases: &[&[(&str, &str)]] = &[
        &[],
        &[("gradient_clipping", "0")],
        &[("gradient_clipping", "\"auto\"")],
        &[
            ("gradient_clipping", "1"),
            ("optimizer", r#"{"params": {"lr": 0.5}}"#),
            ("scheduler", r#"{"type": "WarmupLR", "params": {"warmup_num_steps": 2}}"#),
        ],
        // Both are 0.001.
        &[
            ("gradient_clipping", "1"),
            ("scheduler", r#"{"type": "WarmupLR", "params": {"warmup_num_steps": 2}}"#),
        ],
        &[("gradient_clipping", "1"), ("fp16", r#"{"enabled": true}"#)],
        &[("gradient_clipping", "1"), ("fp16", r#"{"enabled": true, "loss_scale": 128}"#)],
        &[("gradient_clipping", "1"), ("fp16", r#"{"enabled": false}"#)],
    ];
    expect![[r#"
        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        none
        none
        run.json:8:37: default: `scheduler.params.warmup_max_lr`: not written, so it is `optimizer.params.lr`, as in DeepSpeed since 0.17.2, June 2025; before, it was 0.001
        none
        run.json:7:3: default: `fp16.initial_scale_power`: not written, so it is 16, as in DeepSpeed since 0.8.0, January 2023; before, it was 32
        none
        none
    "#]].assert_eq(&listed(cases.iter().map(|changes| defaults(changes))));
}
