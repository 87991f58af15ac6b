//! The optimizer and the learning rate's schedule.

use expect_test::expect;

use super::{RESOURCES, check_values, file, listed, outcome, run};
use crate::resolved::{NoDecay, OptimizerConfig, SchedulerConfig, Warmup, WarmupType};

#[test]
fn the_optimizer() {
    check_values(
        "optimizer",
        &[
            r#"{"type": "Adam", "params": {"lr": -1, "betas": [0.9, 1.0], "eps": 0, "weight_decay": -0.1}}"#,
            r#"{"type": "AdamW", "params": {"momentum": 0.9, "amsgrad": true, "max_grad_norm": 1.0}}"#,
            r#"{"type": "SGD", "params": {"betas": [0.9, 0.99], "eps": 1e-8, "momentum": 1, "nesterov": true}}"#,
            r#"{"type": "OneBitAdam", "params": {}}"#,
            r#"{"type": "AdamWW", "params": {}}"#,
            r#"{"type": "AdamW", "params": {"betas": [0.9], "lr": 1e999}}"#,
            r#"{"no_decay": ["bias", ""]}"#,
            r#"{"type": "Adam", "params": {"torch_adam": true, "adam_w_mode": true, "bias_correction": true}}"#,
            r#"{"type": "Adam", "params": {"adam_w_mode": false}}"#,
        ],
        expect![[r#"
            run.json:6:50: `optimizer.params.lr` is -1, but it must not be negative; use 0 or more
              run.json:6:63: `optimizer.params.betas` is 1, but it must be at least 0 and below 1; use a value such as 0.9
              run.json:6:82: `optimizer.params.eps` is 0, but it keeps the division by the second moment's root finite: it must be positive; use a value such as 1e-8
              run.json:6:101: `optimizer.params.weight_decay` is -0.1, but it must not be negative; use 0 or more
            run.json:6:57: `optimizer.params.momentum` is set, but it belongs to SGD: AdamW keeps its moments by `betas`; remove it
              run.json:6:73: `optimizer.params.amsgrad` is true, but AMSGrad is not offered; remove it, or set false
              run.json:6:96: `optimizer.params.max_grad_norm` is 1.0, but clipping inside the optimizer is not offered; write `gradient_clipping` instead
            run.json:6:52: `optimizer.params.betas` is set, but it belongs to AdamW: SGD has one `momentum`; remove it
              run.json:6:72: `optimizer.params.eps` is set, but it belongs to AdamW: SGD divides by nothing; remove it
              run.json:6:90: `optimizer.params.momentum` is 1, but it must be at least 0 and below 1; use a value such as 0.9
              run.json:6:105: `optimizer.params.nesterov` is true, but Nesterov momentum is not offered; remove it, or set false
            run.json:6:25: `optimizer.type` is "OneBitAdam", but that is not offered; use "AdamW", "Adam" or "SGD"
            run.json:6:25: `optimizer.type` is "AdamWW", but it must be "AdamW", "Adam" or "SGD"; did you mean "AdamW"?
            run.json:6:54: `optimizer.params.betas` must be a list of two numbers or "auto", but is the list [0.9]; write a value such as [0.9, 0.999]
              run.json:6:67: `optimizer.params.lr` is 1e999, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
            run.json:6:29: `optimizer.no_decay` is [""], but the empty pattern is part of every name, so nothing would be decayed; set `optimizer.params.weight_decay` to 0 instead
            run.json:6:58: hint: `optimizer.params.torch_adam`: no effect here: there is one AdamW
            run.json:6:59: `optimizer.params.adam_w_mode` is false, but Adam with L2 regularisation is not offered; remove it: `Adam` means AdamW
        "#]],
    );
    let run = run(&[(
        "optimizer",
        r#"{"type": "SGD", "params": {"lr": "auto", "momentum": 0.9}, "no_decay": ["ln"]}"#,
    )]);
    let no_decay = NoDecay::Patterns(vec!["ln".to_owned()]);
    assert_eq!(run.optimizer, OptimizerConfig::Sgd { lr: 1e-3, momentum: 0.9, weight_decay: 0.0, no_decay });
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
    // The class has a rate of its own.
    let peak = |scheduler| match scheduler {
        SchedulerConfig::WarmupDecayLr { warmup, .. } => warmup.warmup_max_lr,
        other => panic!("{other:?}"),
    };
    assert_eq!(peak(scheduler("WarmupDecayLR", "")), 1e-3);
    assert_eq!(peak(scheduler("WarmupDecayLR", r#""warmup_max_lr": "auto""#)), 0.5);
    assert_eq!(peak(scheduler("WarmupDecayLR", r#""warmup_max_lr": 0.25"#)), 0.25);
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
    check_values(
        "scheduler",
        &[
            "{}",
            r#"{"type": "OneCycle"}"#,
            r#"{"type": "Warmup"}"#,
            r#"{"type": "WarmupLR", "params": {"total_num_steps": 5, "cos_min_ratio": 0.1}}"#,
            r#"{"type": "WarmupCosineLR", "params": {"warmup_max_lr": 1, "cos_min_ratio": 2}}"#,
            r#"{"type": "WarmupDecayLR", "params": {"total_num_steps": 0, "warmup_min_lr": -1}}"#,
            r#"{"type": "WarmupLR", "params": {"warmup_type": "cosine", "last_batch_iteration": 3}}"#,
        ],
        expect![[r#"
            run.json:6:3: `scheduler.type` is missing: a scheduler is chosen by its type; add it, or remove `scheduler` for a constant rate
            run.json:6:25: `scheduler.type` is "OneCycle", but that is not offered; use "WarmupLR", "WarmupDecayLR" or "WarmupCosineLR"
            run.json:6:25: `scheduler.type` is "Warmup", but it must be "WarmupLR", "WarmupDecayLR" or "WarmupCosineLR"; did you mean "WarmupLR"?
            run.json:6:67: `scheduler.params.total_num_steps` is set, but it belongs to WarmupDecayLR and WarmupCosineLR; remove it
            run.json:6:71: `scheduler.params.warmup_max_lr` is set, but it belongs to WarmupLR and WarmupDecayLR: WarmupCosineLR scales the optimizer's rate; remove it
              run.json:6:91: `scheduler.params.cos_min_ratio` is 2, but it is a share of the optimizer's rate, from 0 to 1; use such a share
            run.json:6:72: `scheduler.params.total_num_steps` is 0, but it must be at least 1; use the run's `steps`, or "auto"
              run.json:6:92: `scheduler.params.warmup_min_lr` is -1, but it must not be negative; use 0 or more
            run.json:6:63: `scheduler.params.warmup_type` is "cosine", but it must be "log" or "linear"; use "log" or "linear"
              run.json:6:97: `scheduler.params.last_batch_iteration` is 3, but starting the schedule at another step than the first is not offered; remove it, or set -1
        "#]],
    );
}

#[test]
fn schedules_that_cannot_do_their_work_in_the_run() {
    let case = |word: &str, params: &str| {
        let scheduler = format!(r#"{{"type": "{word}", "params": {{{params}}}}}"#);
        outcome(&file(&[("steps", "20"), ("scheduler", &scheduler)]), &[], RESOURCES)
    };
    let of_class = |word: &'static str, params: &[&str]| -> Vec<String> {
        params.iter().map(|params| case(word, params)).collect()
    };
    let warmups =
        ["", r#""warmup_num_steps": 21"#, r#""warmup_num_steps": 20"#, r#""warmup_num_steps": "auto""#];
    let decays = [
        r#""warmup_num_steps": 4, "total_num_steps": 10"#,
        r#""warmup_num_steps": 4, "total_num_steps": 17"#,
        r#""warmup_num_steps": 4, "total_num_steps": 18"#,
        r#""warmup_num_steps": 4, "total_num_steps": 20"#,
        r#""warmup_num_steps": 30, "total_num_steps": 40"#,
        r#""warmup_num_steps": 11, "total_num_steps": 10"#,
    ];
    let all = [
        of_class("WarmupLR", &warmups),
        of_class("WarmupDecayLR", &warmups),
        of_class("WarmupDecayLR", &decays),
        // It stays at a tenth of the rate, which is a recipe of its own.
        of_class(
            "WarmupDecayLR",
            &[r#""warmup_num_steps": 4, "total_num_steps": 10, "warmup_min_lr": 1e-4"#],
        ),
        of_class(
            "WarmupDecayLR",
            &[r#""warmup_num_steps": 4, "total_num_steps": 10, "warmup_min_lr": 1e-6"#],
        ),
        of_class("WarmupCosineLR", &warmups),
        of_class("WarmupCosineLR", &decays),
        of_class(
            "WarmupCosineLR",
            &[r#""warmup_num_steps": 4, "total_num_steps": 10, "cos_min_ratio": 0.1"#],
        ),
    ];
    expect![[r#"
        run.json:6:37: warning: `scheduler.params.warmup_num_steps`: the rate warms up over 1000 steps, and the run has 20, so it never reaches its highest; write fewer, or "auto", which is a tenth of `steps`
        run.json:6:68: warning: `scheduler.params.warmup_num_steps`: the rate warms up over 21 steps, and the run has 20, so it never reaches its highest; write fewer, or "auto", which is a tenth of `steps`
        valid
        run.json:6:68: auto: `scheduler.params.warmup_num_steps`: "auto" is 2
        run.json:6:42: warning: `scheduler.params.total_num_steps`: the rate decays within 20 steps, but warms up over 1000 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        run.json:6:42: warning: `scheduler.params.total_num_steps`: the rate decays within 20 steps, but warms up over 21 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        valid
        run.json:6:73: auto: `scheduler.params.warmup_num_steps`: "auto" is 2
        run.json:6:95: warning: `scheduler.params.total_num_steps`: the rate is 0 from step 12 to the last, step 20; write `steps` there, or "auto", which is the same
        run.json:6:95: warning: `scheduler.params.total_num_steps`: the rate is 0 from step 19 to the last, step 20; write `steps` there, or "auto", which is the same
        valid
        valid
        run.json:6:73: warning: `scheduler.params.warmup_num_steps`: the rate warms up over 30 steps, and the run has 20, so it never reaches its highest; write fewer, or "auto", which is a tenth of `steps`
        run.json:6:96: warning: `scheduler.params.total_num_steps`: the rate decays within 10 steps, but warms up over 11 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        valid
        run.json:6:95: warning: `scheduler.params.total_num_steps`: the rate is 0.001 of its highest from step 12 to the last, step 20; write `steps` there, or "auto", which is the same
        run.json:6:43: warning: `scheduler.params.total_num_steps`: the rate decays within 20 steps, but warms up over 1000 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        run.json:6:43: warning: `scheduler.params.total_num_steps`: the rate decays within 20 steps, but warms up over 21 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        valid
        run.json:6:74: auto: `scheduler.params.warmup_num_steps`: "auto" is 2
        run.json:6:96: warning: `scheduler.params.total_num_steps`: the rate is 0.0001 of its highest from step 11 to the last, step 20; write `steps` there, or "auto", which is the same
        run.json:6:96: warning: `scheduler.params.total_num_steps`: the rate is 0.0001 of its highest from step 18 to the last, step 20; write `steps` there, or "auto", which is the same
        run.json:6:96: warning: `scheduler.params.total_num_steps`: the rate is 0.0001 of its highest from step 19 to the last, step 20; write `steps` there, or "auto", which is the same
        valid
        run.json:6:74: warning: `scheduler.params.warmup_num_steps`: the rate warms up over 30 steps, and the run has 20, so it never reaches its highest; write fewer, or "auto", which is a tenth of `steps`
        run.json:6:97: warning: `scheduler.params.total_num_steps`: the rate decays within 10 steps, but warms up over 11 (`warmup_num_steps`); write fewer there, or "auto", which is a tenth of `steps`
        valid
    "#]].assert_eq(&listed(all.concat()));
}

#[test]
fn a_peak_that_the_file_may_not_have_meant() {
    let case = |params: &str| {
        let scheduler =
            format!(r#"{{"type": "WarmupDecayLR", "params": {{"warmup_num_steps": 2{params}}}}}"#);
        outcome(
            &file(&[("optimizer", r#"{"params": {"lr": 3e-4}}"#), ("scheduler", &scheduler)]),
            &[],
            RESOURCES,
        )
    };
    let params =
        ["", r#", "warmup_max_lr": 3e-4"#, r#", "warmup_max_lr": "auto""#, r#", "warmup_max_lr": null"#];
    expect![[r#"
        run.json:7:42: warning: `scheduler.params.warmup_max_lr`: not written, so the rate rises to 0.001, as in DeepSpeed's WarmupDecayLR, and not to `optimizer.params.lr`, 0.0003; write "auto" for that
        valid
        run.json:7:93: auto: `scheduler.params.warmup_max_lr`: "auto" is 0.0003
        run.json:7:93: `scheduler.params.warmup_max_lr` must be a number or "auto", but is null; write a value such as 0.1
    "#]].assert_eq(&listed(params.iter().map(|params| case(params))));
}
