//! The model, the text, communication, precision and the top level.

use expect_test::expect;

use super::{check, run};

fn model(sizes: &str) -> String {
    format!(r#"{{"family": "gpt2", {sizes}}}"#)
}

#[test]
fn the_model() {
    check(
        &[("model", "")],
        expect![[r#"
            run.json:1:1: `model` is missing: there is nothing to train; add a `model` with its `family` and sizes
        "#]],
    );
    check(
        &[("model", "{}")],
        expect![[r#"
            run.json:2:3: `model.family` is missing: it decides what the sizes mean; add "gpt2" or "mlp"
            run.json:2:3: `model.num_layers` is missing: the model's size is yours to choose; add it
            run.json:2:3: `model.hidden_size` is missing: the model's size is yours to choose; add it
            run.json:2:3: `model.seq_length` is missing: the model's size is yours to choose; add it
            run.json:2:3: `model.num_attention_heads` is missing: the model's size is yours to choose; add it
        "#]],
    );
    check(
        &[("model", r#"{"family": "mlp", "num_layers": 1, "hidden_size": 3, "seq_length": 1}"#)],
        expect![[r#"
            valid
        "#]],
    );
    check(
        &[(
            "model",
            r#"{"family": "llama", "num_layers": 1, "hidden_size": 3, "num_attention_heads": 1, "seq_length": 1}"#,
        )],
        expect![[r#"
            run.json:2:23: `model.family` is "llama", but that is not offered yet; use "gpt2" or "mlp"
        "#]],
    );
    check(
        &[(
            "model",
            r#"{"family": "bert", "num_layers": 1, "hidden_size": 3, "num_attention_heads": 1, "seq_length": 1}"#,
        )],
        expect![[r#"
            run.json:2:23: `model.family` is "bert", but it must be "gpt2" or "mlp"; use "gpt2" or "mlp"
        "#]],
    );
    check(
        &[(
            "model",
            &model(r#""num_layers": 0, "hidden_size": 0, "num_attention_heads": 0, "seq_length": 0"#),
        )],
        expect![[r#"
            run.json:2:45: `model.num_layers` is 0, but it must be at least 1; use 1 or more
            run.json:2:63: `model.hidden_size` is 0, but it must be at least 1; use 1 or more
            run.json:2:89: `model.num_attention_heads` is 0, but it must be at least 1; use 1 or more
            run.json:2:106: `model.seq_length` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
    check(
        &[(
            "model",
            &model(r#""num_layers": 4, "hidden_size": 30, "num_attention_heads": 4, "seq_length": 8"#),
        )],
        expect![[r#"
            run.json:2:90: `model.num_attention_heads` is 4, but `model.hidden_size` is 30, which 4 does not divide: every head has the same width; use a divisor such as 3
        "#]],
    );
    check(
        &[(
            "model",
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "vocab_size": 128"#,
            ),
        )],
        expect![[r#"
            run.json:2:124: `model.vocab_size` is 128, but text is read as bytes, which are 256 tokens; use at least 256
        "#]],
    );
    check(
        &[(
            "model",
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "init_std": 0"#,
            ),
        )],
        expect![[r#"
            run.json:2:122: `model.init_std` is 0, but equal weights never grow apart: it must be positive; use a value such as 0.02
        "#]],
    );
    check(
        &[(
            "model",
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "dropout": 0.1"#,
            ),
        )],
        expect![[r#"
            run.json:2:121: `model.dropout` is 0.1, but dropout is not offered yet; remove it, or set 0
        "#]],
    );
    check(
        &[(
            "model",
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "dropout": 0.0"#,
            ),
        )],
        expect![[r#"
            valid
        "#]],
    );
}

#[test]
fn data_and_evaluation() {
    check(
        &[("data", "")],
        expect![[r#"
            run.json:1:1: `data` is missing: there is nothing to train on; add a `data` with `text`: files, folders or globs
        "#]],
    );
    check(
        &[("data", "{}")],
        expect![[r#"
            run.json:3:3: `data.text` is missing: there is nothing to train on; add files, folders or globs
        "#]],
    );
    check(
        &[("data", r#"{"text": ""}"#)],
        expect![[r#"
            run.json:3:20: `data.text` is empty, but it must name at least one file, folder or glob, and none may be empty; add one
        "#]],
    );
    check(
        &[("data", r#"{"text": ["a", 5]}"#)],
        expect![[r#"
            run.json:3:20: `data.text` must be a string or a list, each element a string, but is a list
        "#]],
    );
    check(
        &[("data", r#"{"text": "a", "validation": 0.51}"#)],
        expect![[r#"
            run.json:3:39: `data.validation` is 0.51, but it is a share of the text, from 0 to 0.5; use a value such as 0.05
        "#]],
    );
    check(
        &[("data", r#"{"text": "a", "validation": -0.1}"#)],
        expect![[r#"
            run.json:3:39: `data.validation` is -0.1, but it is a share of the text, from 0 to 0.5; use a value such as 0.05
        "#]],
    );
    check(
        &[("data", r#"{"text": "a", "validation": 0}"#), ("evaluation", r#"{"batches": 0}"#)],
        expect![[r#"
            run.json:6:29: `evaluation.batches` is 0, but an evaluation needs at least one batch; use 1 or more, or set `data.validation` to 0
        "#]],
    );
    assert_eq!(run(&[("data", r#"{"text": "a", "validation": 0.5}"#)]).data.validation, 0.5);
}

#[test]
fn communication_threads_and_clipping() {
    check(
        &[("comm", r#"{"backend": "mpi", "timeout_s": 0}"#)],
        expect![[r#"
            run.json:6:23: `comm.backend` is "mpi", but that is not offered yet; use "threads"
            run.json:6:43: `comm.timeout_s` is 0, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
        "#]],
    );
    check(
        &[("comm", r#"{"backend": "gloo", "timeout_s": -1}"#)],
        expect![[r#"
            run.json:6:23: `comm.backend` is "gloo", but that is not offered; use "threads"
            run.json:6:44: `comm.timeout_s` is -1, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
        "#]],
    );
    check(
        &[("comm", r#"{"backend": "thread", "timeout_s": 1e30}"#)],
        expect![[r#"
            run.json:6:23: `comm.backend` is "thread", but it must be "threads"; did you mean "threads"?
            run.json:6:46: `comm.timeout_s` is 1000000000000000000000000000000, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
        "#]],
    );
    check(
        &[("comm", r#"{"port": 5000, "links": {}}"#)],
        expect![[r#"
            run.json:6:20: `comm.port` is 5000, but a side channel between processes is not offered yet; remove it: ranks are threads of one process
            run.json:6:35: `comm.links` is an object, but link shaping is not offered yet; remove it
        "#]],
    );
    check(
        &[("threads", "0"), ("gradient_clipping", "-1")],
        expect![[r#"
            run.json:6:14: `threads` is 0, but it must be at least 1; use 1 or more
            run.json:7:24: `gradient_clipping` is -1, but it must not be negative; use 0 or more
        "#]],
    );
    check(
        &[("steps", "")],
        expect![[r#"
            run.json:1:1: `steps` is missing: a run has an end; add the number of optimizer steps
        "#]],
    );
    assert_eq!(run(&[("threads", "3"), ("gradient_clipping", "0")]).threads, 3);
    assert_eq!(run(&[("parallel", r#"{"pipeline": 3}"#)]).threads, 2);
    assert_eq!(run(&[("gradient_clipping", "\"auto\"")]).gradient_clipping, 1.0);
}

#[test]
fn precision() {
    let check = |bf16: &str, fp16: &str, expected| {
        let bf16 = format!(r#"{{"enabled": {bf16}}}"#);
        let fp16 = format!(r#"{{"enabled": {fp16}}}"#);
        check(&[("bf16", &bf16), ("fp16", &fp16)], expected);
    };
    check(
        "true",
        "true",
        expect![[r#"
            run.json:7:23: `fp16.enabled` is true, but `bf16.enabled` is true too, and a run computes in one type; set one of the two to false
        "#]],
    );
    check(
        "true",
        "false",
        expect![[r#"
            run.json:6:23: `bf16.enabled` is true, but computing in bf16 is not offered yet; set it to false; computation is in f32
        "#]],
    );
    check(
        "\"auto\"",
        "true",
        expect![[r#"
            run.json:7:23: `fp16.enabled` is true, but computing in fp16 is not offered yet; set it to false; computation is in f32
        "#]],
    );
    check(
        "\"auto\"",
        "\"auto\"",
        expect![[r#"
            valid
        "#]],
    );
    check(
        "false",
        "\"auto\"",
        expect![[r#"
            valid
        "#]],
    );
    check(
        "1",
        "\"yes\"",
        expect![[r#"
            run.json:6:23: `bf16.enabled` must be true or false or "auto", but is 1
            run.json:7:23: `fp16.enabled` must be true or false or "auto", but is the string "yes"
        "#]],
    );
}
