//! Which type a run computes in, from the two keys that users set.

use crate::config::findings::Findings;
use crate::config::kind::Auto;
use crate::config::raw::{RawBf16, RawFp16};

/// What `bf16.enabled` and `fp16.enabled` say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 parameters, activations and computation.
    F32,
    /// bf16 parameters and activations, f32 master weights, accumulation and reduction.
    Bf16,
    /// fp16 parameters and activations, the rest as for bf16, with dynamic loss scaling.
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
/// scaling, which nobody should get unasked.
///
/// | bf16 \ fp16 | true | auto | false |
/// |---|---|---|---|
/// | true | error | bf16 | bf16 |
/// | auto | fp16 | bf16 if native, else f32 | bf16 if native, else f32 |
/// | false | fp16 | f32 | f32 |
pub fn precision(bf16: Switch, fp16: Switch, native_bf16: bool) -> Result<Precision, BothOn> {
    match (bf16, fp16) {
        (Switch::On, Switch::On) => Err(BothOn),
        (Switch::On, Switch::Auto | Switch::Off) => Ok(Precision::Bf16),
        (Switch::Auto | Switch::Off, Switch::On) => Ok(Precision::Fp16),
        (Switch::Auto, Switch::Auto | Switch::Off) if native_bf16 => Ok(Precision::Bf16),
        (Switch::Auto | Switch::Off, Switch::Auto | Switch::Off) => Ok(Precision::F32),
    }
}

/// CPUs multiply in f32; bf16 would be converted back and forth.
const CPU_NATIVE_BF16: bool = false;

/// Checks the two keys. Only f32 computation is offered for now.
pub(super) fn check(bf16: &RawBf16, fp16: &RawFp16, findings: &mut Findings) {
    let switch = |enabled: Option<Auto<bool>>| match enabled {
        Some(Auto::Value(true)) => Switch::On,
        Some(Auto::Value(false)) | None => Switch::Off,
        Some(Auto::Auto) => Switch::Auto,
    };
    let (bf16, fp16) = (&bf16.enabled, &fp16.enabled);
    let repair = "set it to false; computation is in f32";
    match precision(switch(bf16.given()), switch(fp16.given()), CPU_NATIVE_BF16) {
        Err(BothOn) => {
            let rule = "`bf16.enabled` is true too, and a run computes in one type";
            findings.broken(&fp16.place, "true", rule, "set one of the two to false");
        }
        Ok(Precision::Bf16) => findings.not_yet(&bf16.place, "true", "computing in bf16", repair),
        Ok(Precision::Fp16) => findings.not_yet(&fp16.place, "true", "computing in fp16", repair),
        Ok(Precision::F32) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{BothOn, Precision, Switch, precision};

    #[test]
    fn all_nine_cells() {
        use Precision::{Bf16, F32, Fp16};
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
