//! Which type a run computes in, from the two keys that users set, and how fp16 scales its loss.

use crate::config::kind::Auto;
use crate::config::raw::{RawBf16, RawFp16};
use crate::config::resolved::{LossScaling, Precision};

use super::foreign::written_keys;

/// What `bf16.enabled` and `fp16.enabled` say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeType {
    /// f32 parameters, activations and computation.
    F32,
    /// bf16 parameters and activations, f32 master weights, accumulation and reduction.
    Bf16,
    /// fp16 parameters and activations, the rest as for bf16, with a scaled loss.
    Fp16,
}

/// One of the two keys; an absent one is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `true`
    On,
    /// `false`
    Off,
    /// `"auto"`
    Auto,
}

/// Both keys are true: no run computes in two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothOn;

/// Resolves precision, for loading and training alike. True wins; with no true, `"auto"` for bf16 means bf16 where the
/// device computes in it natively (`native_bf16`); `"auto"` for fp16 alone never picks fp16, since its range needs loss
/// scaling, which should not be switched on without being asked for.
///
/// | bf16 \ fp16 | true | auto | false |
/// |---|---|---|---|
/// | true | error | bf16 | bf16 |
/// | auto | fp16 | bf16 if native, else f32 | bf16 if native, else f32 |
/// | false | fp16 | f32 | f32 |
pub fn precision(bf16: Switch, fp16: Switch, native_bf16: bool) -> Result<ComputeType, BothOn> {
    match (bf16, fp16) {
        (Switch::On, Switch::On) => Err(BothOn),
        (Switch::On, Switch::Auto | Switch::Off) => Ok(ComputeType::Bf16),
        (Switch::Auto | Switch::Off, Switch::On) => Ok(ComputeType::Fp16),
        (Switch::Auto, Switch::Auto | Switch::Off) if native_bf16 => Ok(ComputeType::Bf16),
        (Switch::Auto | Switch::Off, Switch::Auto | Switch::Off) => Ok(ComputeType::F32),
    }
}

/// CPUs multiply in f32; bf16 would be converted back and forth.
const CPU_NATIVE_BF16: bool = false;

/// The largest power of two that f32 holds.
const MAX_SCALE_POWER: u64 = 127;

/// The type that a run computes in.
pub(super) fn resolve(bf16: &RawBf16, fp16: &RawFp16) -> Option<Precision> {
    let switch = |enabled: Option<Auto<bool>>| match enabled {
        Some(Auto::Value(true)) => Switch::On,
        Some(Auto::Value(false)) | None => Switch::Off,
        Some(Auto::Auto) => Switch::Auto,
    };
    let scaling = loss_scaling(fp16);
    let precision = precision(switch(bf16.enabled.given()), switch(fp16.enabled.given()), CPU_NATIVE_BF16);
    match precision {
        Err(BothOn) => {
            let rule = "`bf16.enabled` is true too, and a run computes in one type";
            fp16.enabled.broken("true", rule, "set one of the two to false")
        }
        Ok(ComputeType::Fp16) => {
            if scaling.is_some_and(|scaling| !scaling.is_dynamic) {
                hint_of_idle_keys(fp16, &adaptive_keys(fp16), "`loss_scale` is fixed");
            }
            scaling.map(Precision::Fp16)
        }
        Ok(ComputeType::Bf16) => {
            hint_of_idle_keys(fp16, &scaling_keys(fp16), "computation is in bf16");
            Some(Precision::Bf16)
        }
        Ok(ComputeType::F32) => {
            hint_of_idle_keys(fp16, &scaling_keys(fp16), "computation is in f32");
            Some(Precision::F32)
        }
    }
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

fn loss_scaling(raw: &RawFp16) -> Option<LossScaling> {
    let in_f32 =
        |scale| scale == 0.0 || (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&scale);
    let rule = "it multiplies an f32: it must be positive and at most 3.4e38, or 0 for a scale that adapts";
    let scale = raw.loss_scale.auto_or(0.0);
    let scale = raw.loss_scale.keep(scale, in_f32, rule, "use a value such as 1024, or 0");
    let rule = "2 to this power is more than f32 can hold";
    let power = raw.initial_scale_power.auto_or(16);
    let power =
        raw.initial_scale_power.keep(power, |power| power <= MAX_SCALE_POWER, rule, "use a value such as 16");
    let window = raw.loss_scale_window.at_least_one(raw.loss_scale_window.auto_or(1000));
    let hysteresis = raw.hysteresis.at_least_one(raw.hysteresis.auto_or(2));
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
    let min = field.keep(field.auto_or(1.0), |min| min > 0.0, rule, "use a value such as 1")?;
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
    use super::{BothOn, ComputeType, Switch, precision};

    #[test]
    fn all_nine_cells() {
        use ComputeType::{Bf16, F32, Fp16};
        use Switch::{Auto, Off, On};
        // Each row: bf16, fp16, on a device without native bf16, on one with it.
        let cells = [
            (On, On, Err(BothOn), Err(BothOn)),
            (On, Auto, Ok(Bf16), Ok(Bf16)),
            (On, Off, Ok(Bf16), Ok(Bf16)),
            (Auto, On, Ok(Fp16), Ok(Fp16)),
            (Auto, Auto, Ok(F32), Ok(Bf16)),
            (Auto, Off, Ok(F32), Ok(Bf16)),
            (Off, On, Ok(Fp16), Ok(Fp16)),
            (Off, Auto, Ok(F32), Ok(F32)),
            (Off, Off, Ok(F32), Ok(F32)),
        ];
        for (bf16, fp16, emulated, native) in cells {
            assert_eq!(precision(bf16, fp16, false), emulated, "{bf16:?} {fp16:?}");
            assert_eq!(precision(bf16, fp16, true), native, "{bf16:?} {fp16:?}");
        }
    }
}
