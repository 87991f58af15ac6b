//! `train_only`: patterns, and lists without one. Whether a pattern matches is known with the model's layers.

use expect_test::expect;

use super::{check_values, run};

#[test]
fn patterns_are_kept_as_written_and_all_layers_are_trained_without_them() {
    let written = run(&[("train_only", r#"["lm_head", "h\\.[0-3]\\."]"#)]).train_only.unwrap();
    let written: Vec<String> = written.iter().map(ToString::to_string).collect();
    assert_eq!(written, ["lm_head", r"h\.[0-3]\."]);
    assert_eq!(run(&[]).train_only, None);
}

#[test]
fn lists_without_a_pattern_and_patterns_that_are_none_are_refused() {
    check_values(
        "train_only",
        &["[]", r#"["lm_head", "h("]"#, r#"[""]"#, r#""lm_head""#, "[1]", "null"],
        expect![[r#"
            run.json:6:17: `train_only` is [], but it matches nothing, so nothing would be trained; name a layer such as "lm_head", or remove the key, which trains everything
            run.json:6:29: `train_only[1]` is "h(", but that is no regular expression: unclosed group; write one such as "lm_head"
            run.json:6:18: `train_only[0]` is "", but it names nothing, and would be found in every name; write one such as "lm_head"
            run.json:6:17: `train_only` must be a list, each element a regular expression of names of layers or parameters, but is the string "lm_head"; write a value such as ["wte|lm_head"]
            run.json:6:18: `train_only[0]` must be a regular expression of names of layers or parameters, but is 1; write a value such as "wte|lm_head"
            run.json:6:17: `train_only` must be a list, each element a regular expression of names of layers or parameters, but is null; write a value such as ["wte|lm_head"]
        "#]],
    );
}
