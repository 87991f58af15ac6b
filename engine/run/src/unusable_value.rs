//! A value in a file of weights or of a checkpoint with which no run can begin, and where it lies.

use std::fmt;
use std::path::Path;

use pipezero_models::ElementType;
use serde::{Deserialize, Serialize};

/// A value that is not finite, or is not any more once it is rounded to the type that the run keeps its weights in.
///
/// Of several, the least is the first in the order of the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnusableValue {
    /// The parameter's place among those of the model, and the element's in the parameter.
    order: (usize, usize),
    place: PlaceInFile,
    value: String,
    /// The type of the run, where the value is finite in the file.
    overflows: Option<String>,
}

/// Where a value lies on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct PlaceInFile {
    /// The file, as messages show it: processes tell each other, and not every path can be written as JSON.
    file: String,
    /// The tensor's name in the file.
    tensor: String,
    /// The element, by dimension.
    index: Vec<usize>,
}

impl PlaceInFile {
    /// An element of a tensor, by dimension.
    pub(crate) fn new(path: &Path, tensor: impl Into<String>, index: Vec<usize>) -> Self {
        Self { file: path.display().to_string(), tensor: tensor.into(), index }
    }
}

impl UnusableValue {
    /// A value at this place, for a run that keeps its weights in `stored`.
    pub(crate) fn new(order: (usize, usize), place: PlaceInFile, value: f32, stored: ElementType) -> Self {
        let overflows = value.is_finite().then(|| stored.to_string());
        Self { order, place, value: in_words(value), overflows }
    }
}

/// ``a/model.safetensors: `wte.weight`[3, 5] is NaN, and weights must be finite; repair``
impl fmt::Display for UnusableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: PlaceInFile { file, tensor, index }, value, overflows, .. } = self;
        write!(f, "{file}: `{tensor}`{index:?} is {value}")?;
        match overflows {
            None => f.write_str(", and values must be finite"),
            Some(stored) => {
                let other = if stored == "bf16" { "f32" } else { "bf16 or f32" };
                write!(f, ", which is infinite in {stored}, the type of the run's weights; train in {other}")
            }
        }
    }
}

/// `NaN`, `-inf`, `70000`, `3e38`
pub(crate) fn in_words(value: f32) -> String {
    if value.is_finite() && value.abs() >= 1e7 { format!("{value:e}") } else { value.to_string() }
}

/// The first of these that is not below `limit` in magnitude, which NaN never is.
pub(crate) fn first_beyond(values: &[f32], limit: f32) -> Option<usize> {
    const AT_ONCE: usize = 4096;
    let is_below = |value: &f32| value.abs() < limit;
    for (number, some) in values.chunks(AT_ONCE).enumerate() {
        // Without a way out of the loop, so that it is vector code: this is asked of all weights that are read.
        if !some.iter().fold(true, |all, value| all & is_below(value)) {
            return some.iter().position(|value| !is_below(value)).map(|at| number * AT_ONCE + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_beyond_a_limit_is_found_wherever_it_is() {
        for (value, limit, is_beyond) in [
            (f32::NAN, f32::INFINITY, true),
            (f32::INFINITY, f32::INFINITY, true),
            (f32::NEG_INFINITY, f32::INFINITY, true),
            (f32::MAX, f32::INFINITY, false),
            (-65520.0, 65520.0, true),
            (65519.99, 65520.0, false),
        ] {
            for at in [0, 1, 4095, 4096, 9999] {
                let mut values = vec![0.5; 10_000];
                values[at] = value;
                let expected = is_beyond.then_some(at);
                assert_eq!(first_beyond(&values, limit), expected, "{value} at {at}");
            }
        }
        assert_eq!(first_beyond(&[], 1.0), None);
    }
}
