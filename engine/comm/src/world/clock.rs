//! How the clocks of processes differ.

use serde::{Deserialize, Serialize};

/// How far a clock is ahead of another, and how wrong that may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds.
    pub ahead_ns: i64,
    /// The true offset differs from it by no more.
    pub error_ns: u64,
}

impl ClockOffset {
    /// Of a clock and itself.
    pub const ZERO: Self = Self { ahead_ns: 0, error_ns: 0 };

    /// What the other clock shows, as far as is known, when this one shows `ns`.
    pub fn on_the_other(self, ns: u64) -> i128 {
        i128::from(ns) - i128::from(self.ahead_ns)
    }

    /// The offset while a clock went from one offset to another: the error reaches as far as those of both.
    pub fn and(self, other: Self) -> Self {
        let middle = i128::midpoint(self.ahead_ns.into(), other.ahead_ns.into());
        let reach = |of: Self| i128::from(of.ahead_ns).abs_diff(middle) + u128::from(of.error_ns);
        let error_ns = reach(self).max(reach(other));
        let ahead_ns = i64::try_from(middle).expect("it lies between two of them");
        Self { ahead_ns, error_ns: u64::try_from(error_ns).unwrap_or(u64::MAX) }
    }

    /// From a question that was asked at `asked_ns` of one clock, answered at `answered_ns` of the other, and whose answer came at
    /// `came_ns` of the first: how far the first is ahead. Half of the way there and back may be wrong (Cristian, *Probabilistic clock
    /// synchronization*, 1989).
    pub fn of_answer(asked_ns: u64, answered_ns: u64, came_ns: u64) -> Self {
        let half_ns = came_ns.saturating_sub(asked_ns).div_ceil(2);
        let middle_ns = i128::from(asked_ns) + i128::from(half_ns);
        let ahead_ns = middle_ns - i128::from(answered_ns);
        let ahead_ns = i64::try_from(ahead_ns).unwrap_or(if ahead_ns < 0 { i64::MIN } else { i64::MAX });
        Self { ahead_ns, error_ns: half_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_offsets_together_reach_as_far_as_both() {
        let offset = |ahead_ns, error_ns| ClockOffset { ahead_ns, error_ns };
        for (one, other, both) in [
            (offset(0, 0), offset(0, 0), offset(0, 0)),
            (offset(10, 2), offset(20, 3), offset(15, 8)),
            (offset(-20, 50), offset(20, 1), offset(0, 70)),
            (offset(i64::MIN, 0), offset(i64::MAX, 0), offset(0, i64::MAX as u64 + 1)),
        ] {
            assert_eq!(one.and(other), both);
            assert_eq!(other.and(one), both);
        }
    }

    /// Whatever part of the way the answer took, the true offset is within the error.
    #[test]
    fn the_true_offset_is_within_the_error() {
        for ahead_ns in [-5_000_i64, -1, 0, 7, 40_000] {
            for (there_ns, back_ns) in [(0, 0), (0, 9), (9, 0), (1, 2), (500, 3)] {
                let asked_ns = 100_000_u64;
                let answered_ns = (asked_ns + there_ns).checked_add_signed(-ahead_ns).unwrap();
                let offset = ClockOffset::of_answer(asked_ns, answered_ns, asked_ns + there_ns + back_ns);
                assert!(offset.ahead_ns.abs_diff(ahead_ns) <= offset.error_ns, "{offset:?} for {ahead_ns}");
            }
        }
    }
}
