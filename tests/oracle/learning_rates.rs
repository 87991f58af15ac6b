//! DeepSpeed's learning rates: the first and the last 30 of 200 steps.

use pipezero_config::{NoDecay, OptimizerConfig, SchedulerConfig, Warmup, WarmupType};
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
        for (step, expected) in (1..).zip(first).chain((last_begins..).zip(last)) {
            let (actual, expected) = (rate.at(step), number(expected));
            // The same formula in the same f64: only `ln` and `cos` may differ between C libraries, by a last place.
            let distance = (actual - expected).abs();
            assert!(
                distance <= 1e-14 * expected.abs(),
                "{case}: step {step} has {actual:e}, not {expected:e}"
            );
        }
    }
}
