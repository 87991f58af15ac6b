//! What `train --resume` says of files whose contents are others than the checkpoint's run read.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::Home;
use crate::resume_changes::{copy, goes_on, lines};

const EVERY_STEP: (&str, &str) = ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }");

/// Tokens of 16 bits.
fn tokens(num: u32, factor: u32) -> Vec<u8> {
    (0..num).flat_map(|index| ((index * index % factor) as u16).to_le_bytes()).collect()
}

#[test]
fn other_validation_tokens_are_warned_of_wherever_they_lie() {
    let home = Home::with(&[
        (
            r#""text": "text.txt", "validation": 0.2"#,
            r#""tokens": "train.bin", "validation_tokens": "val.bin""#,
        ),
        EVERY_STEP,
    ]);
    home.write("train.bin", tokens(4000, 251));
    home.write("val.bin", tokens(1000, 251));
    home.write("same.bin", tokens(1000, 251));
    home.run("train run.json --out out").success();
    goes_on(
        &home,
        "train run.json --set steps=4",
        expect![[r#"
            $ --set seed=3
            since the checkpoint: steps 3 -> 4
            $ --set data.validation_tokens=same.bin
            since the checkpoint: steps 3 -> 4, data.validation_tokens ["~/val.bin"] -> ["~/same.bin"]
        "#]],
    );
    // As many tokens, and others.
    home.write("val.bin", tokens(1000, 241));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
            $ --set steps=4
            warning: data.validation_tokens ["~/val.bin"] since the checkpoint: validation losses are those of other data from here on
            since the checkpoint: steps 3 -> 4
        "#]],
    );
}

/// Whichever block of a text is another, one side is.
#[test]
fn each_part_of_a_text_is_trained_on_or_held_out() {
    let home = Home::with(&[EVERY_STEP]);
    home.run("train run.json --out out").success();
    let text = home.read("text.txt");
    let mut found = Vec::new();
    for block in 0..text.len() / 4096 {
        let mut other = text.clone().into_bytes();
        other[block * 4096 + 2000] = b'!';
        home.write("text.txt", other);
        copy(&home, "out", "copy");
        let printed = home.run("train run.json --out copy --resume --set steps=4");
        let said = lines(&printed.stderr);
        printed.success();
        let of = ["training", "validation"]
            .map(|side| said.contains(&format!("warning: the {side} text is not ")));
        assert_ne!(of[0], of[1], "block {block}: {said}");
        found.push(of[1]);
    }
    assert!(found.contains(&true) && found.contains(&false), "{found:?}");
}

/// A student learns from what its teacher is when it goes on.
#[test]
fn a_teacher_with_other_weights_is_warned_of() {
    let home = Home::with(&[EVERY_STEP]);
    let mut large: Value = serde_json::from_str(&home.read("run.json")).unwrap();
    large
        .as_object_mut()
        .unwrap()
        .retain(|key, _| ["model", "parallel", "zero_optimization", "threads"].contains(&key.as_str()));
    let distill = json!({"student": "small", "teacher": "large", "temperature": 2, "alpha": 0.5});
    let write = |teacher: &str| {
        let task = json!({"distill": distill, "init": {"large": teacher}});
        let file = json!({"engines": {"small": "run.json", "large": large}, "tasks": {"learn": task}});
        home.write("distill.json", file.to_string());
    };
    write("teacher");
    home.run("train run.json --out teacher").success();
    home.run("train distill.json --out out").success();
    let longer = "train distill.json --set engines.small.steps=4";
    goes_on(
        &home,
        longer,
        expect![[r#"
            $ --set engines.small.threads=1
            since the checkpoint: steps 3 -> 4
        "#]],
    );
    copy(&home, "teacher", "same");
    write("same");
    goes_on(
        &home,
        longer,
        expect![[r#"
            $ --set engines.small.threads=1
            since the checkpoint: steps 3 -> 4, teacher "~/teacher" -> "~/same"
        "#]],
    );
    write("teacher");
    fs::remove_dir_all(home.path("teacher")).unwrap();
    home.run("train run.json --set seed=8 --out teacher").success();
    goes_on(
        &home,
        longer,
        expect![[r#"
            $ --set engines.small.threads=1
            warning: teacher "~/teacher" since the checkpoint: its weights are others, so the student learns from the logits of another model from here on
            since the checkpoint: steps 3 -> 4
        "#]],
    );
}
