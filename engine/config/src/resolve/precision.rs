//! Which type a run computes in, from the three keys that users set, and how fp16 scales its loss.

use crate::kind::Auto;
use crate::raw::{RawFp16, RawRun};
use crate::resolved::{DeviceName, LossScaling, Precision};
use crate::section::Field;

use super::changed_default;
use super::foreign::written_keys;

/// The type of parameters and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComputeType {
    F32,
    Bf16,
    Fp16,
}

/// What `bf16.enabled` and `fp16.enabled` say together; `None` where both are true, since no run computes in two types. True
/// wins; with no true, `"auto"` for bf16 means bf16 where the device computes in it natively (`native_bf16`); `"auto"` for
/// fp16 alone never picks fp16, since its range needs loss scaling, which should not be switched on without being asked for.
///
/// | bf16 \ fp16 | true | auto | false |
/// |---|---|---|---|
/// | true | error | bf16 | bf16 |
/// | auto | fp16 | bf16 if native, else f32 | bf16 if native, else f32 |
/// | false | fp16 | f32 | f32 |
fn compute_type(bf16: Auto<bool>, fp16: Auto<bool>, native_bf16: bool) -> Option<ComputeType> {
    match (bf16, fp16) {
        (Auto::Value(true), Auto::Value(true)) => None,
        (Auto::Value(true), _) => Some(ComputeType::Bf16),
        (_, Auto::Value(true)) => Some(ComputeType::Fp16),
        (Auto::Auto, _) if native_bf16 => Some(ComputeType::Bf16),
        _ => Some(ComputeType::F32),
    }
}

/// Whether a device multiplies in bf16. CPUs multiply in f32; bf16 would be converted back and forth.
fn has_native_bf16(device: DeviceName) -> bool {
    device == DeviceName::Cuda
}

/// Why `"auto"` for bf16 became what it is in a run that computes in this type.
fn why_bf16_or_not(found: ComputeType, device: Option<DeviceName>) -> &'static str {
    match (found, device) {
        (ComputeType::Bf16, _) => "the run computes on a GPU, which multiplies in bf16",
        (ComputeType::Fp16, _) => "`fp16.enabled` is true, and a run computes in one type",
        (ComputeType::F32, Some(DeviceName::Cpu)) => {
            "the run computes in f32, since it is on a CPU, which would convert bf16 to f32 to multiply"
        }
        (ComputeType::F32, _) => "the run computes in f32, since it is not known to be on a GPU",
    }
}

const WHY_NOT_FP16: &str = "fp16 needs loss scaling, so only true chooses it";

/// DeepSpeed's first scale is 2 to this power.
const INITIAL_SCALE_POWER: u64 = 16;

/// The largest power of two that f32 holds.
const MAX_SCALE_POWER: u64 = 127;

/// The type that a run computes in, on a device; `None` where that is not known.
pub(super) fn resolve(raw: &RawRun, device: Option<DeviceName>) -> Option<Precision> {
    let RawRun { bf16, fp16, tf32, .. } = raw;
    // A key of the wrong type is reported already.
    let written = |enabled: &Field<Auto<bool>>| enabled.given().unwrap_or(Auto::Value(false));
    let scaling = loss_scaling(fp16);
    let computes_in =
        compute_type(written(&bf16.enabled), written(&fp16.enabled), device.is_some_and(has_native_bf16));
    if let Some(found) = computes_in {
        bf16.enabled.became_because(found == ComputeType::Bf16, why_bf16_or_not(found, device));
        fp16.enabled.became_because(found == ComputeType::Fp16, WHY_NOT_FP16);
    }
    let tf32 = tf32_or_hint(tf32, computes_in, device);
    match computes_in {
        None => {
            let rule = "`bf16.enabled` is true too, and a run computes in one type";
            fp16.enabled.broken("true", rule, "set one of the two to false")
        }
        Some(ComputeType::Fp16) => {
            if scaling.is_some_and(|scaling| !scaling.is_dynamic) {
                hint_of_idle_keys(fp16, &adaptive_keys(fp16), "`loss_scale` is fixed");
            }
            if let Some(scaling) = scaling {
                fp16.loss_scale.became(if scaling.is_dynamic { 0.0 } else { scaling.initial_scale });
                fp16.initial_scale_power.became(INITIAL_SCALE_POWER);
                fp16.loss_scale_window.became(scaling.window);
                fp16.hysteresis.became(scaling.hysteresis);
                fp16.min_loss_scale.became(scaling.min_scale);
            }
            if scaling.is_some_and(|scaling| scaling.is_dynamic) {
                changed_default::INITIAL_SCALE_POWER.say_of(&fp16.initial_scale_power);
            }
            scaling.map(Precision::Fp16)
        }
        Some(ComputeType::Bf16) => {
            hint_of_idle_keys(fp16, &scaling_keys(fp16), "computation is in bf16");
            Some(Precision::Bf16)
        }
        Some(ComputeType::F32) => {
            hint_of_idle_keys(fp16, &scaling_keys(fp16), "computation is in f32");
            Some(if tf32? { Precision::Tf32 } else { Precision::F32 })
        }
    }
}

/// Whether products round their factors to TF32; a hint where the key asks for it in vain.
fn tf32_or_hint(
    tf32: &Field<bool>,
    computes_in: Option<ComputeType>,
    device: Option<DeviceName>,
) -> Option<bool> {
    let is_asked_for = tf32.or(false)?;
    let why_not = match (computes_in, device) {
        (Some(ComputeType::Bf16), _) => Some("computation is in bf16"),
        (Some(ComputeType::Fp16), _) => Some("computation is in fp16"),
        (_, Some(DeviceName::Cpu)) => {
            Some("`device` is \"cpu\" on this host, and a CPU multiplies f32 as they are")
        }
        _ => None,
    };
    if let (true, Some(why)) = (is_asked_for, why_not) {
        tf32.site.hint(format!("{why}, so this key has no effect"));
    }
    Some(is_asked_for && why_not.is_none())
}

/// The keys that shape loss scaling, each with whether it is written.
fn scaling_keys(fp16: &RawFp16) -> Vec<(&'static str, bool)> {
    let mut keys = vec![("loss_scale", fp16.loss_scale.is_written())];
    keys.extend(adaptive_keys(fp16));
    keys
}

/// Those of a scale that adapts.
fn adaptive_keys(fp16: &RawFp16) -> [(&'static str, bool); 5] {
    [
        ("initial_scale_power", fp16.initial_scale_power.is_written()),
        ("loss_scale_window", fp16.loss_scale_window.is_written()),
        ("hysteresis", fp16.hysteresis.is_written()),
        ("consecutive_hysteresis", fp16.consecutive_hysteresis.is_written()),
        ("min_loss_scale", fp16.min_loss_scale.is_written()),
    ]
}

/// One line for all keys that are passed over; most DeepSpeed files have them, whatever they compute in.
fn hint_of_idle_keys(fp16: &RawFp16, keys: &[(&str, bool)], why: &str) {
    if let Some(keys) = written_keys(keys) {
        fp16.head.site.hint(format!("{why}, so these keys have no effect: {keys}"));
    }
}

/// The value, or `default` if none is written or it is `"auto"`. Without a notice of what `"auto"` became, which matters only in fp16.
fn value_or<T: Clone>(field: &Field<Auto<T>>, default: T) -> Option<T> {
    Some(field.or(Auto::Auto)?.value().unwrap_or(default))
}

fn loss_scaling(raw: &RawFp16) -> Option<LossScaling> {
    let in_f32 =
        |scale| scale == 0.0 || (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&scale);
    let rule = "it multiplies an f32: it must be positive and at most 3.4e38, or 0 for a scale that adapts";
    let scale = value_or(&raw.loss_scale, 0.0);
    let scale = raw.loss_scale.keep(scale, in_f32, rule, "use a value such as 1024, or 0");
    let rule = "2 to this power is more than f32 can hold";
    let power = value_or(&raw.initial_scale_power, INITIAL_SCALE_POWER);
    let power =
        raw.initial_scale_power.keep(power, |power| power <= MAX_SCALE_POWER, rule, "use a value such as 16");
    let window = raw.loss_scale_window.at_least_one(value_or(&raw.loss_scale_window, 1000));
    let hysteresis = raw.hysteresis.at_least_one(value_or(&raw.hysteresis, 2));
    let min_scale = min_scale(raw, scale, power);
    let scale = scale?;
    Some(LossScaling {
        initial_scale: if scale == 0.0 { 2_f64.powi(power? as i32) } else { scale },
        is_dynamic: scale == 0.0,
        window: window?,
        hysteresis: u32::try_from(hysteresis?).unwrap_or(u32::MAX),
        consecutive_hysteresis: raw.consecutive_hysteresis.or(false)?,
        min_scale: min_scale?,
    })
}

/// A scale that adapts starts at or above its least value; a fixed one has no other.
fn min_scale(raw: &RawFp16, scale: Option<f64>, power: Option<u64>) -> Option<f64> {
    let field = &raw.min_loss_scale;
    let rule = "the smallest scale of the loss must be positive";
    let min = field.keep(value_or(field, 1.0), |min| min > 0.0, rule, "use a value such as 1")?;
    if scale? != 0.0 {
        return scale;
    }
    let initial = 2_f64.powi(power? as i32);
    let rule = format!("the first scale is {initial}, which must not be below the smallest one");
    let repair = "use a smaller one, or a larger `initial_scale_power`";
    field.keep(Some(min), |min| min <= initial, &rule, repair)
}

#[cfg(test)]
mod tests {
    use super::{ComputeType, compute_type};

    #[test]
    fn bf16_and_fp16_resolve_in_all_nine_combinations() {
        use crate::kind::Auto::{Auto, Value};
        use ComputeType::{Bf16, F32, Fp16};
        // Each row: bf16, fp16, on a device without native bf16, on one with it.
        for (bf16, fp16, emulated, native) in [
            (Value(true), Value(true), None, None),
            (Value(true), Auto, Some(Bf16), Some(Bf16)),
            (Value(true), Value(false), Some(Bf16), Some(Bf16)),
            (Auto, Value(true), Some(Fp16), Some(Fp16)),
            (Auto, Auto, Some(F32), Some(Bf16)),
            (Auto, Value(false), Some(F32), Some(Bf16)),
            (Value(false), Value(true), Some(Fp16), Some(Fp16)),
            (Value(false), Auto, Some(F32), Some(F32)),
            (Value(false), Value(false), Some(F32), Some(F32)),
        ] {
            assert_eq!(compute_type(bf16, fp16, false), emulated, "{bf16:?} {fp16:?}");
            assert_eq!(compute_type(bf16, fp16, true), native, "{bf16:?} {fp16:?}");
        }
    }
}
