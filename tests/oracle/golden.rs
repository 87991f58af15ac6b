//! Golden files, and how far a figure may lie from one.

use std::path::Path;

use serde_json::Value;

/// The largest distance to a golden figure, as max |a - b| / max |b| over a tensor.
///
/// The figures are float64's, rounded to f32. pipezero computes in f32, where a step on a tiny model is a few hundred
/// roundings of 6e-8 each, of random sign; measured: below 1e-6. A wrong formula is off by far more than 1e-5.
pub(super) const TOLERANCE: f64 = 1e-5;

/// The content of a golden file.
pub(super) fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

/// A number.
pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// A count.
pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

/// A list of f32 values.
pub(super) fn floats(value: &Value) -> Vec<f32> {
    list(value).iter().map(|value| number(value) as f32).collect()
}

/// Panics unless `actual` lies within `tolerance` of the golden figures.
#[track_caller]
pub(super) fn assert_close(what: &str, actual: &[f32], golden: &[f32], tolerance: f64) {
    assert_eq!(actual.len(), golden.len(), "{what}: number of elements");
    let scale = golden.iter().fold(0.0, |max: f64, &b| max.max(f64::from(b).abs()));
    for (i, (&a, &b)) in actual.iter().zip(golden).enumerate() {
        let distance = (f64::from(a) - f64::from(b)).abs() / scale;
        // Written so that NaN fails.
        assert!(
            distance <= tolerance,
            "{what}[{i}]: {a:e} is {distance:.1e} from {b:e}, beyond {tolerance:e}"
        );
    }
}
