//! The model, the text, communication, precision and the top level.

use expect_test::expect;

use super::{RESOURCES, check_each, check_values, file, run};
use crate::{DataPath, RunFile};

fn model(sizes: &str) -> String {
    format!(r#"{{"family": "gpt2", {sizes}}}"#)
}

/// Whether texts exist is not a rule of the file, but `check` asks for it; both kinds of mistakes are reported together.
#[test]
fn missing_texts_are_reported_with_other_mistakes() {
    let fault = |data: DataPath<'_>| {
        let (DataPath::Text(path) | DataPath::Tokens(path) | DataPath::Tokenizer(path)) = data;
        (!path.ends_with("a.md")).then(|| format!("`{}` is not there", path.display()))
    };
    let said = |changes: &[(&str, &str)]| {
        let resolved = RunFile::parse("run.json", &file(changes)).unwrap().resolve_with(RESOURCES, &fault);
        resolved.map_or_else(|errors| format!("{errors}\n"), |_| "valid\n".to_owned())
    };
    expect!["valid\n"].assert_eq(&said(&[]));
    let texts = ("data", r#"{"text": ["a.md", "x/*.md", "b.md"]}"#);
    expect![[r#"
        run.json:3:20: `data.text` is "x/*.md", but `x/*.md` is not there; relative paths start at the run file's folder
        run.json:3:20: `data.text` is "b.md", but `b.md` is not there; relative paths start at the run file's folder
        run.json:5:12: `steps` is 0, but a run has at least one step; use 1 or more
    "#]].assert_eq(&said(&[texts, ("steps", "0")]));
    // Unasked, and without a text that is read, nothing is said.
    run(&[texts]);
    let timed = r#"{"family": "timed", "num_layers": 4, "seq_length": 16, "parameters_per_layer": 8, "activation_elements": 8, "forward_ms": 1}"#;
    expect!["valid\n"].assert_eq(&said(&[texts, ("model", timed)]));
}

#[test]
fn the_model() {
    check_values(
        "model",
        &[
            "",
            "{}",
            r#"{"family": "mlp", "num_layers": 1, "hidden_size": 3, "seq_length": 1}"#,
            r#"{"family": "llama", "num_layers": 1, "hidden_size": 3, "num_attention_heads": 1, "seq_length": 1}"#,
            r#"{"family": "bert", "num_layers": 1, "hidden_size": 3, "num_attention_heads": 1, "seq_length": 1}"#,
            &model(r#""num_layers": 0, "hidden_size": 0, "num_attention_heads": 0, "seq_length": 0"#),
            &model(r#""num_layers": 4, "hidden_size": 30, "num_attention_heads": 4, "seq_length": 8"#),
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "vocab_size": 128"#,
            ),
            &model(
                r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "init_std": 0"#,
            ),
        ],
        expect![[r#"
            run.json:1:1: `model` is missing: there is nothing to train; add one, such as "model": {"family": "gpt2", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 1024}
            run.json:2:3: `model.family` is missing: it decides what the sizes mean; add "gpt2", "llama", "mlp" or "timed"
              run.json:2:3: `model.num_layers` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.seq_length` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.hidden_size` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.num_attention_heads` is missing: the model's size is yours to choose; add it
            valid
            run.json:2:90: `model.num_attention_heads` is 1, but `model.hidden_size` / 1 is 3, and rotary embeddings turn pairs of elements: a head has an even number of them; use other sizes, or add `model.kv_channels`
            run.json:2:23: `model.family` is "bert", but it must be "gpt2", "llama", "mlp" or "timed"; use "gpt2", "llama", "mlp" or "timed"
            run.json:2:45: `model.num_layers` is 0, but it must be at least 1; use 1 or more
              run.json:2:63: `model.hidden_size` is 0, but it must be at least 1; use 1 or more
              run.json:2:89: `model.num_attention_heads` is 0, but it must be at least 1; use 1 or more
              run.json:2:106: `model.seq_length` is 0, but it must be at least 1; use 1 or more
            run.json:2:90: `model.num_attention_heads` is 4, but `model.hidden_size` is 30, which 4 does not divide: every head has the same width; use a divisor such as 3
            run.json:2:124: `model.vocab_size` is 128, but text without `data.tokenizer` is read as bytes, which are 256 tokens; use at least 256
            run.json:2:122: `model.init_std` is 0, but with 0 all weights would start equal and stay equal: it must be positive; use a value such as 0.02
        "#]],
    );
}

#[test]
fn dropout() {
    let model = |dropout: &str| {
        model(&format!(
            r#""num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 8, "dropout": {dropout}"#
        ))
    };
    for (text, share) in [("0", 0.0), ("0.1", 0.1), ("0.999", 0.999)] {
        assert_eq!(run(&[("model", &model(text))]).model.gpt().unwrap().dropout, share);
    }
    let mlp = |dropout: &str| {
        format!(
            r#"{{"family": "mlp", "num_layers": 1, "hidden_size": 3, "seq_length": 1, "dropout": {dropout}}}"#
        )
    };
    check_values(
        "model",
        &[&model("1"), &model("-0.1"), &mlp("0.1")],
        expect![[r#"
            run.json:2:121: `model.dropout` is 1, but it must be at least 0 and below 1; use a value such as 0.1
            run.json:2:121: `model.dropout` is -0.1, but it must be at least 0 and below 1; use a value such as 0.1
            run.json:2:93: `model.dropout` is 0.1, but family "mlp" has no dropout; use 0, or family "gpt2"
        "#]],
    );
    assert_eq!(run(&[("model", &mlp("0"))]).model.gpt().unwrap().dropout, 0.0);
}

#[test]
fn memory_of_a_rank() {
    assert_eq!(run(&[]).memory_bytes, None);
    for (text, bytes) in [("1073741824", 1 << 30), ("\"80GiB\"", 80 << 30), ("\"24GB\"", 24_000_000_000)] {
        assert_eq!(run(&[("memory", text)]).memory_bytes, Some(bytes), "{text}");
    }
    check_values(
        "memory",
        &["0", "\"80G\"", "-1"],
        expect![[r#"
            run.json:6:13: `memory` is 0, but a rank needs some memory; use a size such as "80GiB"
            run.json:6:13: `memory` is "80G", but a size is a number and a unit; write one such as "80GiB" (of 1024) or "80GB" (of 1000), or bytes as a number
            run.json:6:13: `memory` is -1, but it must not be negative; use a positive number
        "#]],
    );
}

#[test]
fn data_and_evaluation() {
    check_each(
        &[
            &[("data", "")],
            &[("data", "{}")],
            &[("data", r#"{"text": ""}"#)],
            &[("data", r#"{"text": ["a", 5]}"#)],
            &[("data", r#"{"text": "a", "validation": 0.51}"#)],
            &[("data", r#"{"text": "a", "validation": -0.1}"#)],
            &[("data", r#"{"text": "a", "validation": 0}"#), ("evaluation", r#"{"batches": 0}"#)],
        ],
        expect![[r#"
            run.json:1:1: `data` is missing: there is nothing to train on; add it with files, folders or globs, such as "data": {"text": "texts/*.txt"}
            run.json:3:3: `data.text` is missing: there is nothing to train on; add files, folders or globs
            run.json:3:20: `data.text` is empty, but it must name at least one file, folder or glob, and none may be empty; add one
            run.json:3:26: `data.text[1]` must be a string, but is 5; write "5"
            run.json:3:39: `data.validation` is 0.51, but it is a share of the data, from 0 to 0.5; use a value such as 0.05
            run.json:3:39: `data.validation` is -0.1, but it is a share of the data, from 0 to 0.5; use a value such as 0.05
            run.json:6:29: `evaluation.batches` is 0, but an evaluation needs at least one batch; use 1 or more; for no evaluation, set `data.validation` to 0
        "#]],
    );
    assert_eq!(run(&[("data", r#"{"text": "a", "validation": 0.5}"#)]).data.validation, 0.5);
}

#[test]
fn document_attention_is_off_unless_it_is_asked_for() {
    let is_on = |data| run(&[("data", data)]).data.document_attention;
    assert!(!is_on(r#"{"text": "a"}"#) && is_on(r#"{"text": "a", "document_attention": true}"#));
    let data = ("data", r#"{"text": "a", "document_attention": true}"#);
    let family = |family: &str| {
        format!(r#"{{"family": "{family}", "num_layers": 4, "hidden_size": 8, "seq_length": 16}}"#)
    };
    check_each(
        &[&[data, ("model", &family("mlp"))], &[("data", r#"{"text": "a", "document_attention": "yes"}"#)]],
        expect![[r#"
            run.json:3:47: hint: `data.document_attention`: no effect here: the mlp family has no attention and no positions
            run.json:3:47: `data.document_attention` must be true or false, but is the string "yes"; write a value such as true
        "#]],
    );
}

#[test]
fn communication_threads_and_clipping() {
    check_each(
        &[
            &[("comm", r#"{"backend": "mpi", "timeout_s": 0}"#)],
            &[("comm", r#"{"backend": "gloo", "timeout_s": -1}"#)],
            &[("comm", r#"{"backend": "thread", "timeout_s": 1e30}"#)],
            &[("comm", r#"{"port": 65536}"#)],
            &[("comm", r#"{"backend": "threads", "reduction": "library"}"#)],
            &[("comm", r#"{"backend": "nccl"}"#), ("device", "\"cpu\"")],
            &[("threads", "0"), ("gradient_clipping", "-1")],
            &[("steps", "")],
        ],
        expect![[r#"
            run.json:6:43: `comm.timeout_s` is 0, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
            run.json:6:23: `comm.backend` is "gloo", but that is not offered; use "threads", "mpi" or "nccl"
              run.json:6:44: `comm.timeout_s` is -1, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
            run.json:6:23: `comm.backend` is "thread", but it must be "threads", "mpi" or "nccl"; did you mean "threads"?
              run.json:6:46: `comm.timeout_s` is 1e30, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
            run.json:6:20: `comm.port` is 65536, but a port is a number from 1 to 65535; use one that is free, such as 29600
            run.json:6:47: `comm.reduction` is "library", but only `comm.backend` "nccl" has a library that adds; remove it, or use that backend
            run.json:7:13: `device` is "cpu", but `comm.backend` "nccl" connects GPUs; use "cuda", or `comm.backend` "threads"
            run.json:6:14: `threads` is 0, but it must be at least 1; use 1 or more
              run.json:7:24: `gradient_clipping` is -1, but it must not be negative; use 0 or more
            run.json:1:1: `steps` is missing: it says when the run ends; add the number of optimizer steps, such as "steps": 1000
        "#]],
    );
    assert_eq!(run(&[("threads", "3"), ("gradient_clipping", "0")]).threads, 3);
    assert_eq!(run(&[("parallel", r#"{"pipeline": 3}"#)]).threads, 2);
    assert_eq!(run(&[("gradient_clipping", "\"auto\"")]).gradient_clipping, 1.0);
}
