//! Each section's own rules.

use expect_test::expect;

use super::{check, run};
use crate::config::resolved::{
    NoDecay, OptimizerConfig, PartitionConfig, ScheduleName, SchedulerConfig, Warmup, WarmupType,
};

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
fn the_grid() {
    check(
        &[("parallel", r#"{"pipeline": 5}"#)],
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
        "#]],
    );
    check(
        &[("parallel", r#"{"pipeline": 0}"#)],
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
    check(
        &[("parallel", r#"{"data": 0}"#)],
        expect![[r#"
            run.json:6:24: `parallel.data` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": "zb-h1"}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is "zb-h1", but that is not offered yet; use "gpipe" or "1f1b"
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": "1f2b"}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is "1f2b", but it must be "gpipe" or "1f1b"; did you mean "1f1b"?
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": {"file": "a.csv"}}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is file "a.csv", but a schedule of one's own is not offered yet; use "gpipe" or "1f1b"
        "#]],
    );
    check(
        &[("parallel", r#"{"virtual_stages": 2, "group_size": 4}"#)],
        expect![[r#"
            run.json:6:34: `parallel.virtual_stages` is 2, but more than one stage per rank is not offered yet; remove it, or set 1
            run.json:6:51: `parallel.group_size` is 4, but the group size of interleaved schedules is not offered yet; remove it
        "#]],
    );
    check(
        &[("parallel", r#"{"virtual_stages": 1}"#)],
        expect![[r#"
            valid
        "#]],
    );
    assert_eq!(run(&[("parallel", r#"{"schedule": "gpipe"}"#)]).parallel.schedule, ScheduleName::GPipe);
}

#[test]
fn the_partition() {
    let partition = |list: &str| format!(r#"{{"pipeline": 2, "partition": {list}}}"#);
    check(
        &[("parallel", &partition("[2, 3]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [2, 3], but its sum is 5 and `model.num_layers` is 4; use numbers with sum 4
        "#]],
    );
    check(
        &[("parallel", &partition("[4]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [4], but `parallel.pipeline` is 2: the list has one number per stage; write 2 numbers
        "#]],
    );
    check(
        &[("parallel", &partition("[4, 0]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [4, 0], but stage 1 would have no layer: every stage needs at least one; use 1 or more for each
        "#]],
    );
    check(
        &[("parallel", &partition("[18446744073709551615, 5]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [18446744073709551615, 5], but its sum is more than 2^64 and `model.num_layers` is 4; use numbers with sum 4
        "#]],
    );
    check(
        &[("parallel", &partition("\"balanced\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "balanced", but that is not offered yet; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("\"type:block\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "type:block", but that is not offered yet; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("\"equal\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "equal", but it must be "uniform"; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("[\"2\", 2]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` must be "uniform" or a list, each element a whole number, but is a list
        "#]],
    );
    assert_eq!(
        run(&[("parallel", &partition("[1, 3]"))]).parallel.partition,
        PartitionConfig::Manual(vec![1, 3])
    );
}

#[test]
fn the_optimizer() {
    let optimizer = |kind: &str, params: &str| {
        check_optimizer(&format!(r#"{{"type": "{kind}", "params": {{{params}}}}}"#))
    };
    expect![[r#"
        run.json:6:50: `optimizer.params.lr` is -1, but it must not be negative; use 0 or more
        run.json:6:63: `optimizer.params.betas` is 1, but it must be at least 0 and below 1; use a value such as 0.9
        run.json:6:82: `optimizer.params.eps` is 0, but it keeps the division by the second moment's root finite: it must be positive; use a value such as 1e-8
        run.json:6:101: `optimizer.params.weight_decay` is -0.1, but it must not be negative; use 0 or more
    "#]]
        .assert_eq(&optimizer("Adam", r#""lr": -1, "betas": [0.9, 1.0], "eps": 0, "weight_decay": -0.1"#));
    expect![[r#"
        run.json:6:57: `optimizer.params.momentum` is set, but it belongs to SGD: AdamW keeps its moments by `betas`; remove it
        run.json:6:73: `optimizer.params.amsgrad` is true, but AMSGrad is not offered; remove it, or set false
        run.json:6:96: `optimizer.params.max_grad_norm` is 1.0, but clipping inside the optimizer is not offered; write `gradient_clipping` instead
    "#]]
        .assert_eq(&optimizer("AdamW", r#""momentum": 0.9, "amsgrad": true, "max_grad_norm": 1.0"#));
    expect![[r#"
        run.json:6:52: `optimizer.params.betas` is set, but it belongs to AdamW: SGD has one `momentum`; remove it
        run.json:6:72: `optimizer.params.eps` is set, but it belongs to AdamW: SGD divides by nothing; remove it
        run.json:6:90: `optimizer.params.momentum` is 1, but it must be at least 0 and below 1; use a value such as 0.9
        run.json:6:105: `optimizer.params.nesterov` is true, but Nesterov momentum is not offered; remove it, or set false
    "#]].assert_eq(&optimizer(
        "SGD",
        r#""betas": [0.9, 0.99], "eps": 1e-8, "momentum": 1, "nesterov": true"#,
    ));
    expect![[r#"
        run.json:6:25: `optimizer.type` is "OneBitAdam", but that is not offered; use "AdamW", "Adam" or "SGD"
    "#]]
    .assert_eq(&optimizer("OneBitAdam", ""));
    expect![[r#"
        run.json:6:25: `optimizer.type` is "AdamWW", but it must be "AdamW", "Adam" or "SGD"; did you mean "AdamW"?
    "#]].assert_eq(&optimizer("AdamWW", ""));
    expect![[r#"
        run.json:6:54: `optimizer.params.betas` must be a list of two numbers or "auto", but is a list
        run.json:6:67: `optimizer.params.lr` must be a number or "auto", but is 1e999
    "#]]
    .assert_eq(&optimizer("AdamW", r#""betas": [0.9], "lr": 1e999"#));
    expect![[r#"
        run.json:6:29: `optimizer.no_decay` is [""], but the empty pattern is part of every name, so nothing would be decayed; set `optimizer.params.weight_decay` to 0 instead
    "#]].assert_eq(&check_optimizer(r#"{"no_decay": ["bias", ""]}"#));
    expect![[r#"
        run.json:6:58: hint: `optimizer.params.torch_adam`: no effect here: there is one AdamW
    "#]]
    .assert_eq(&optimizer("Adam", r#""torch_adam": true, "adam_w_mode": true, "bias_correction": true"#));
    expect![[r#"
        run.json:6:59: `optimizer.params.adam_w_mode` is false, but Adam with L2 regularisation is not offered; remove it: `Adam` means AdamW
    "#]].assert_eq(&optimizer("Adam", r#""adam_w_mode": false"#));
    let run = run(&[(
        "optimizer",
        r#"{"type": "SGD", "params": {"lr": "auto", "momentum": 0.9}, "no_decay": ["ln"]}"#,
    )]);
    let no_decay = NoDecay::Patterns(vec!["ln".to_owned()]);
    assert_eq!(run.optimizer, OptimizerConfig::Sgd { lr: 1e-3, momentum: 0.9, weight_decay: 0.0, no_decay });
}

fn check_optimizer(optimizer: &str) -> String {
    super::outcome(&super::file(&[("optimizer", optimizer)]), &[], super::WORLD)
}

#[test]
fn the_scheduler() {
    let scheduler = |kind: &str, params: &str| {
        let scheduler = format!(r#"{{"type": "{kind}", "params": {{{params}}}}}"#);
        let optimizer = ("optimizer", r#"{"params": {"lr": 0.5}}"#);
        run(&[optimizer, ("scheduler", &scheduler)]).scheduler
    };
    let warmup = Warmup {
        warmup_min_lr: 0.0,
        warmup_max_lr: 0.5,
        warmup_num_steps: 1000,
        warmup_type: WarmupType::Log,
    };
    assert_eq!(run(&[]).scheduler, SchedulerConfig::Constant);
    assert_eq!(scheduler("WarmupLR", ""), SchedulerConfig::WarmupLr(warmup.clone()));
    let auto = r#""warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto""#;
    let warmup = Warmup { warmup_num_steps: 1, ..warmup };
    assert_eq!(
        scheduler("WarmupDecayLR", auto),
        SchedulerConfig::WarmupDecayLr { warmup, total_num_steps: 10 }
    );
    let cosine = SchedulerConfig::WarmupCosineLr {
        total_num_steps: 7,
        warmup_min_ratio: 0.0,
        warmup_num_steps: 3,
        cos_min_ratio: 1e-4,
        warmup_type: WarmupType::Linear,
    };
    let params = r#""total_num_steps": 7, "warmup_num_steps": 3, "warmup_type": "linear""#;
    assert_eq!(scheduler("WarmupCosineLR", params), cosine);
}

#[test]
fn wrong_schedulers() {
    check(
        &[("scheduler", "{}")],
        expect![[r#"
            run.json:6:3: `scheduler.type` is missing: a scheduler is chosen by its type; add it, or remove `scheduler` for a constant rate
        "#]],
    );
    check(
        &[("scheduler", r#"{"type": "OneCycle"}"#)],
        expect![[r#"
            run.json:6:25: `scheduler.type` is "OneCycle", but that is not offered; use "WarmupLR", "WarmupDecayLR" or "WarmupCosineLR"
        "#]],
    );
    check(
        &[("scheduler", r#"{"type": "Warmup"}"#)],
        expect![[r#"
            run.json:6:25: `scheduler.type` is "Warmup", but it must be "WarmupLR", "WarmupDecayLR" or "WarmupCosineLR"; did you mean "WarmupLR"?
        "#]],
    );
    check(
        &[("scheduler", r#"{"type": "WarmupLR", "params": {"total_num_steps": 5, "cos_min_ratio": 0.1}}"#)],
        expect![[r#"
            run.json:6:67: `scheduler.params.total_num_steps` is set, but it belongs to WarmupDecayLR and WarmupCosineLR; remove it
        "#]],
    );
    check(
        &[("scheduler", r#"{"type": "WarmupCosineLR", "params": {"warmup_max_lr": 1, "cos_min_ratio": 2}}"#)],
        expect![[r#"
            run.json:6:71: `scheduler.params.warmup_max_lr` is set, but it belongs to WarmupLR and WarmupDecayLR: WarmupCosineLR scales the optimizer's rate; remove it
            run.json:6:91: `scheduler.params.cos_min_ratio` is 2, but it is a share of the optimizer's rate, from 0 to 1; use such a share
        "#]],
    );
    check(
        &[(
            "scheduler",
            r#"{"type": "WarmupDecayLR", "params": {"total_num_steps": 0, "warmup_min_lr": -1}}"#,
        )],
        expect![[r#"
            run.json:6:72: `scheduler.params.total_num_steps` is 0, but it must be at least 1; use the run's `steps`, or "auto"
            run.json:6:92: `scheduler.params.warmup_min_lr` is -1, but it must not be negative; use 0 or more
        "#]],
    );
    check(
        &[(
            "scheduler",
            r#"{"type": "WarmupLR", "params": {"warmup_type": "cosine", "last_batch_iteration": 3}}"#,
        )],
        expect![[r#"
            run.json:6:63: `scheduler.params.warmup_type` is "cosine", but it must be "log" or "linear"; use "log" or "linear"
            run.json:6:97: `scheduler.params.last_batch_iteration` is 3, but starting the schedule at another step than the first is not offered; remove it, or set -1
        "#]],
    );
    check(
        &[("scheduler", r#"{"type": "WarmupDecayLR"}"#)],
        expect![[r#"
            run.json:6:3: warning: `scheduler.params.total_num_steps`: the rate decays within 10 steps, but warms up over 1000
        "#]],
    );
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
