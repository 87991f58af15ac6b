//! The one in the middle: of times, and of recorded steps.

use crate::recording::Recording;

/// The one in the middle; of an even number the upper one of the two; 0 of none.
pub(super) fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The step of middle length; of an even number the longer one of the two in the middle.
///
/// # Panics
/// If there are no steps.
pub fn median_step<'a, 'p>(steps: &'a [Recording<'p>]) -> &'a Recording<'p> {
    let mut sorted: Vec<&Recording<'_>> = steps.iter().collect();
    sorted.sort_by_key(|recording| recording.length());
    sorted[sorted.len() / 2]
}
