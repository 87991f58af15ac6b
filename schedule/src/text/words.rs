//! The words of a program's header and of its units: one list for reading and writing.

use crate::options::Reduction;
use crate::program::Purpose;
use crate::unit_facts::Tying;

/// What the program computes.
pub(super) const PURPOSES: [(&str, Purpose); 2] =
    [("training", Purpose::Training), ("evaluation", Purpose::Evaluation)];

/// When gradients are reduced.
pub(super) const REDUCTIONS: [(&str, Reduction); 3] = [
    ("all-reduce-last", Reduction::AllReduceLast),
    ("scatter-last", Reduction::ScatterLast),
    ("scatter-every", Reduction::ScatterEvery),
];

/// Whether something is done.
pub(super) const YES_OR_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

/// Whether a unit's forward and its backward read weights.
pub(super) const READERS: [(&str, (bool, bool)); 4] =
    [("FB", (true, true)), ("F", (true, false)), ("B", (false, true)), ("none", (false, false))];

/// Whether a unit's weight is shared.
pub(super) const TYINGS: [(&str, Tying); 3] =
    [("untied", Tying::Untied), ("embedding", Tying::Embedding), ("head", Tying::Head)];

/// The word of a value.
pub(super) fn word<T: PartialEq, const N: usize>(words: [(&'static str, T); N], value: T) -> &'static str {
    words.into_iter().find(|(_, of)| *of == value).expect("each list has all values").0
}
