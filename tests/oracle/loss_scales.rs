//! DeepSpeed's dynamic loss scaler, step for step.

use pipezero_config::{LossScaling, Precision};
use pipezero_run::optimizer::{LossScaler, ScaleChange};

use super::golden::{count, list, number, read};

#[test]
fn scales_equal_deepspeeds_step_for_step() {
    let golden = read("loss_scales.json");
    let cases = list(&golden["cases"]);
    assert_eq!(cases.len(), 72);
    for case in cases {
        let scaling = LossScaling {
            initial_scale: (count(&case["initial_scale_power"]) as f64).exp2(),
            is_dynamic: true,
            window: count(&case["loss_scale_window"]),
            hysteresis: count(&case["hysteresis"]) as u32,
            consecutive_hysteresis: case["consecutive_hysteresis"] == true,
            min_scale: number(&case["min_loss_scale"]),
        };
        let mut scaler = LossScaler::new(Precision::Fp16(scaling)).expect("fp16 scales its loss");
        let (overflows, powers) = (list(&case["overflows"]), list(&case["scale_powers"]));
        let mut last = ScaleChange::Kept;
        for (overflow, expected) in overflows.iter().zip(powers) {
            assert_eq!(scaler.scale(), number(expected).exp2(), "{case}");
            last = scaler.update(overflow == true);
        }
        assert_eq!(last == ScaleChange::Exhausted, case["exhausted"] == true, "{case}");
    }
}
