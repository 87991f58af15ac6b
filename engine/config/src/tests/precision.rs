//! Precision and loss scaling.

use expect_test::expect;

use super::{check_each, check_values, run};
use crate::resolved::{LossScaling, Precision};

/// The run's precision where `bf16.enabled` and `fp16.enabled` are these.
fn precision(bf16: &str, fp16: &str) -> Precision {
    let bf16 = format!(r#"{{"enabled": {bf16}}}"#);
    let fp16 = format!(r#"{{"enabled": {fp16}}}"#);
    run(&[("bf16", &bf16), ("fp16", &fp16)]).precision
}

/// DeepSpeed's defaults.
const SCALING: LossScaling = LossScaling {
    initial_scale: 65536.0,
    is_dynamic: true,
    window: 1000,
    hysteresis: 2,
    consecutive_hysteresis: false,
    min_scale: 1.0,
};

/// The cells of docs/numerics.md on a CPU, through the file; the ninth is an error.
#[test]
fn bf16_and_fp16_are_read_in_all_nine_combinations() {
    for (bf16, fp16, expected) in [
        ("true", "\"auto\"", Precision::Bf16),
        ("true", "false", Precision::Bf16),
        ("\"auto\"", "true", Precision::Fp16(SCALING)),
        ("\"auto\"", "\"auto\"", Precision::F32),
        ("\"auto\"", "false", Precision::F32),
        ("false", "true", Precision::Fp16(SCALING)),
        ("false", "\"auto\"", Precision::F32),
        ("false", "false", Precision::F32),
    ] {
        assert_eq!(precision(bf16, fp16), expected, "{bf16} {fp16}");
    }
    check_each(
        &[
            &[("bf16", r#"{"enabled": true}"#), ("fp16", r#"{"enabled": true}"#)],
            &[("bf16", r#"{"enabled": 1}"#), ("fp16", r#"{"enabled": "yes"}"#)],
        ],
        expect![[r#"
            run.json:7:23: `fp16.enabled` is true, but `bf16.enabled` is true too, and a run computes in one type; set one of the two to false
            run.json:6:23: `bf16.enabled` must be true or false or "auto", but is 1; write true
              run.json:7:23: `fp16.enabled` must be true or false or "auto", but is the string "yes"; write a value such as false
        "#]],
    );
}

#[test]
fn the_loss_is_scaled_as_in_deepspeed() {
    let scaling = |keys: &str| match run(&[("fp16", &format!(r#"{{"enabled": true{keys}}}"#))]).precision {
        Precision::Fp16(scaling) => scaling,
        other => panic!("{other:?}"),
    };
    assert_eq!(scaling(""), SCALING);
    let auto = r#", "loss_scale": "auto", "initial_scale_power": "auto", "loss_scale_window": "auto",
        "hysteresis": "auto", "min_loss_scale": "auto""#;
    assert_eq!(scaling(auto), SCALING);
    let keys = r#", "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 1,
        "consecutive_hysteresis": true, "min_loss_scale": 0.5"#;
    let expected = LossScaling {
        initial_scale: 4096.0,
        is_dynamic: true,
        window: 500,
        hysteresis: 1,
        consecutive_hysteresis: true,
        min_scale: 0.5,
    };
    assert_eq!(scaling(keys), expected);
    let fixed = LossScaling { initial_scale: 128.0, is_dynamic: false, min_scale: 128.0, ..SCALING };
    assert_eq!(scaling(r#", "loss_scale": 128"#), fixed);
}

#[test]
fn scales_stay_within_f32() {
    let fp16 = |keys: &str| format!(r#"{{"enabled": true, {keys}}}"#);
    check_values(
        "fp16",
        &[
            &fp16(r#""loss_scale": -1"#),
            &fp16(r#""loss_scale": 1e39"#),
            &fp16(r#""initial_scale_power": 128"#),
            &fp16(r#""loss_scale_window": 0, "hysteresis": 0"#),
            &fp16(r#""min_loss_scale": 0"#),
            &fp16(r#""initial_scale_power": 4, "min_loss_scale": 17"#),
        ],
        expect![[r#"
            run.json:6:43: `fp16.loss_scale` is -1, but it multiplies an f32: it must be positive and at most 3.4e38, or 0 for a scale that adapts; use a value such as 1024, or 0
            run.json:6:43: `fp16.loss_scale` is 1e39, but it multiplies an f32: it must be positive and at most 3.4e38, or 0 for a scale that adapts; use a value such as 1024, or 0
            run.json:6:52: `fp16.initial_scale_power` is 128, but 2 to this power is more than f32 can hold; use a value such as 16
            run.json:6:50: `fp16.loss_scale_window` is 0, but it must be at least 1; use 1 or more
              run.json:6:67: `fp16.hysteresis` is 0, but it must be at least 1; use 1 or more
            run.json:6:47: `fp16.min_loss_scale` is 0, but the smallest scale of the loss must be positive; use a value such as 1
            run.json:6:73: `fp16.min_loss_scale` is 17, but the first scale is 16, which must not be below the smallest one; use a smaller one, or a larger `initial_scale_power`
        "#]],
    );
}

#[test]
fn tf32_is_for_f32_on_a_gpu() {
    let on_gpu = ("device", "\"cuda\"");
    assert_eq!(run(&[on_gpu]).precision, Precision::F32);
    assert_eq!(run(&[on_gpu, ("tf32", "false")]).precision, Precision::F32);
    assert_eq!(run(&[on_gpu, ("tf32", "true")]).precision, Precision::Tf32);
    let enabled = r#"{"enabled": true}"#;
    check_each(
        &[
            &[("device", "\"cpu\""), ("tf32", "true")],
            &[on_gpu, ("tf32", "true"), ("bf16", enabled)],
            &[on_gpu, ("tf32", "true"), ("fp16", enabled)],
            &[on_gpu, ("tf32", "1")],
        ],
        expect![[r#"
            run.json:7:11: hint: `tf32`: `device` is "cpu" on this host, and a CPU multiplies f32 as they are, so this key has no effect
            run.json:7:11: hint: `tf32`: computation is in bf16, so this key has no effect
            run.json:7:11: hint: `tf32`: computation is in fp16, so this key has no effect
            run.json:7:11: `tf32` must be true or false, but is 1; write true
        "#]],
    );
}

#[test]
fn keys_of_loss_scaling_that_do_nothing_are_named_in_one_line() {
    let keys = r#"{"enabled": false, "loss_scale": 0, "hysteresis": 2}"#;
    check_each(
        &[
            &[("fp16", keys)],
            &[("bf16", r#"{"enabled": true}"#), ("fp16", keys)],
            &[("fp16", r#"{"enabled": true, "loss_scale": 8, "loss_scale_window": 5}"#)],
        ],
        expect![[r#"
            run.json:6:3: hint: `fp16`: computation is in f32, so these keys have no effect: `loss_scale`, `hysteresis`
            run.json:7:3: hint: `fp16`: computation is in bf16, so these keys have no effect: `loss_scale`, `hysteresis`
            run.json:6:3: hint: `fp16`: `loss_scale` is fixed, so these keys have no effect: `loss_scale_window`
        "#]],
    );
}

#[test]
fn other_types_of_state_are_not_offered() {
    let fp16 = r#"{"enabled": true, "fp16_master_weights_and_grads": true}"#;
    let bf16 = r#"{"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}"#;
    check_each(
        &[&[("fp16", fp16)], &[("bf16", bf16)]],
        expect![[r#"
            run.json:6:62: `fp16.fp16_master_weights_and_grads` is true, but keeping master weights and gradients in fp16 is not offered; remove it, or set false
            run.json:6:62: `bf16.bf16_master_weights_and_grads` is true, but keeping master weights and gradients in bf16 is not offered; remove it, or set false
              run.json:6:93: `bf16.bf16_optimizer_states` is true, but keeping optimizer state in bf16 is not offered; remove it, or set false
        "#]],
    );
}
