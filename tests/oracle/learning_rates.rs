//! DeepSpeed's learning rates: the first and the last 30 of 200 steps, and 40 steps where keys of a file are left out.

use pipezero_config::{NoDecay, OptimizerConfig, Resources, RunFile, SchedulerConfig, Warmup, WarmupType};
use pipezero_run::optimizer::LearningRate;
use serde_json::Value;

use super::golden::{count, list, number, read};

fn warmup_type(params: &Value) -> WarmupType {
    match params["warmup_type"].as_str() {
        Some("log") => WarmupType::Log,
        Some("linear") => WarmupType::Linear,
        other => panic!("{other:?} is not a form of warm-up"),
    }
}

fn warmup(params: &Value) -> Warmup {
    Warmup {
        warmup_min_lr: number(&params["warmup_min_lr"]),
        warmup_max_lr: number(&params["warmup_max_lr"]),
        warmup_num_steps: count(&params["warmup_num_steps"]),
        warmup_type: warmup_type(params),
    }
}

fn scheduler(case: &Value) -> SchedulerConfig {
    let params = &case["params"];
    match case["type"].as_str() {
        Some("WarmupLR") => SchedulerConfig::WarmupLr(warmup(params)),
        Some("WarmupDecayLR") => SchedulerConfig::WarmupDecayLr {
            warmup: warmup(params),
            total_num_steps: count(&params["total_num_steps"]),
        },
        Some("WarmupCosineLR") => SchedulerConfig::WarmupCosineLr {
            total_num_steps: count(&params["total_num_steps"]),
            warmup_min_ratio: number(&params["warmup_min_ratio"]),
            warmup_num_steps: count(&params["warmup_num_steps"]),
            cos_min_ratio: number(&params["cos_min_ratio"]),
            warmup_type: warmup_type(params),
        },
        other => panic!("{other:?} is not a schedule"),
    }
}

#[test]
fn rates_equal_deepspeeds_step_for_step() {
    let golden = read("learning_rates.json");
    let optimizer = OptimizerConfig::Sgd {
        lr: number(&golden["optimizer_lr"]),
        momentum: 0.0,
        weight_decay: 0.0,
        no_decay: NoDecay::OneDimensional,
    };
    let num_steps = count(&golden["num_steps"]);
    for case in list(&golden["cases"]) {
        let rate = LearningRate::new(&optimizer, &scheduler(case));
        let (first, last) = (list(&case["first"]), list(&case["last"]));
        assert_eq!((first.len(), last.len()), (30, 30));
        let last_begins = num_steps - 30 + 1;
        check(case, &rate, (1..).zip(first).chain((last_begins..).zip(last)));
    }
}

/// Compares the rates of some steps.
fn check<'a>(case: &Value, rate: &LearningRate, expected: impl Iterator<Item = (u64, &'a Value)>) {
    for (step, expected) in expected {
        let (actual, expected) = (rate.at(step), number(expected));
        // The same formula in the same f64: only `ln` and `cos` may differ between C libraries, by a last place.
        let distance = (actual - expected).abs();
        assert!(distance <= 1e-14 * expected.abs(), "{case}: step {step} has {actual:e}, not {expected:e}");
    }
}

#[test]
fn a_file_that_leaves_keys_out_gets_deepspeeds_rates() {
    let golden = read("learning_rate_defaults.json");
    let cases = list(&golden["cases"]);
    assert_eq!(cases.len(), 3 * 16);
    for case in cases {
        let text = serde_json::json!({
            "model": {"family": "gpt2", "num_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "seq_length": 8},
            "data": {"text": "text.txt"},
            "train_batch_size": 1,
            "steps": 40,
            "optimizer": {"type": "SGD", "params": {"lr": golden["optimizer_lr"]}},
            "scheduler": {"type": case["type"], "params": case["params"]},
        });
        let file = RunFile::parse("run.json", &text.to_string());
        let (run, _) = file.and_then(|file| file.resolve(Resources::this_host())).expect("a valid run");
        let rates = list(&case["rates"]);
        assert_eq!(rates.len(), 40);
        check(case, &LearningRate::new(&run.optimizer, &run.scheduler), (1..).zip(rates));
    }
}
