//! Which steps of a run are traced.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The steps to trace: from a first to a last, both included.
///
/// The first step of a run touches its memory for the first time and fills caches, so it says little about the others. By
/// default three steps after it are traced: enough for a median, and a trace that a viewer opens at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedSteps(RangeInclusive<u64>);

/// The steps that are traced unless others are named, as far as a run has them.
const DEFAULT: RangeInclusive<u64> = 2..=4;

/// Why steps cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TracedStepsError {
    /// Not of the form of steps.
    #[error("write the first and the last step, both from 1 and both traced, as `2..4`; or one step, as `3`")]
    Form,
    /// There are no such steps.
    #[error(
        "steps {steps} cannot be traced: the run has {num_steps}; name steps of it, or leave --trace-steps out"
    )]
    Beyond {
        /// The steps.
        steps: TracedSteps,
        /// Steps of the run.
        num_steps: u64,
    },
}

impl TracedSteps {
    /// The steps of a run of `num_steps` that are traced unless others are named: 2 to 4, or those of them that there are; of a
    /// run of one step, that one.
    pub fn of_run(num_steps: u64) -> Self {
        let last = num_steps.min(*DEFAULT.end());
        Self(last.min(*DEFAULT.start())..=last)
    }

    /// Whether a run has these steps.
    ///
    /// # Errors
    /// [`TracedStepsError::Beyond`] if it does not.
    pub fn check(&self, num_steps: u64) -> Result<(), TracedStepsError> {
        if *self.0.end() <= num_steps {
            return Ok(());
        }
        Err(TracedStepsError::Beyond { steps: self.clone(), num_steps })
    }

    /// Whether a step is traced.
    pub fn contains(&self, step: u64) -> bool {
        self.0.contains(&step)
    }
}

impl fmt::Display for TracedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0.start(), self.0.end())
    }
}

impl FromStr for TracedSteps {
    type Err = TracedStepsError;

    fn from_str(text: &str) -> Result<Self, TracedStepsError> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let step = |text: &str| {
            // Not `parse` alone, which takes a sign.
            let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
            text.parse().ok().filter(|&step: &u64| is_number && step > 0).ok_or(TracedStepsError::Form)
        };
        let steps = step(first)?..=step(last)?;
        if steps.is_empty() { Err(TracedStepsError::Form) } else { Ok(Self(steps)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_the_steps_after_the_first_are_traced_as_far_as_there_are_any() {
        let traced = |num_steps| TracedSteps::of_run(num_steps).to_string();
        assert_eq!([1, 2, 3, 4, 500].map(traced), ["1..1", "2..2", "2..3", "2..4", "2..4"]);
        for num_steps in 1..6 {
            TracedSteps::of_run(num_steps).check(num_steps).unwrap();
        }
    }

    #[test]
    fn steps_are_read_and_everything_else_is_refused() {
        let steps: TracedSteps = "3..12".parse().unwrap();
        assert_eq!([2, 3, 12, 13].map(|step| steps.contains(step)), [false, true, true, false]);
        assert!(steps.check(12).is_ok() && steps.check(11).is_err());
        assert_eq!("7".parse::<TracedSteps>().unwrap().to_string(), "7..7");
        for text in ["", "..", "1..", "..2", "0..2", "4..3", "1..2..3", "+1..2", "1-2", "a", "1.. 2", "²"] {
            assert_eq!(text.parse::<TracedSteps>(), Err(TracedStepsError::Form), "{text}");
        }
    }
}
