//! A mean of times, which are summed exactly and rounded once.

/// The mean of what is added; a difference of times may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mean {
    sum: i128,
    count: i128,
}

impl Mean {
    pub(super) fn add(&mut self, time: u64) {
        self.add_difference(i128::from(time));
    }

    pub(super) fn add_difference(&mut self, difference: i128) {
        self.sum += difference;
        self.count += 1;
    }

    /// The mean to the nearest nanosecond, or 0 where noise made it negative; `None` of nothing.
    pub(super) fn get(self) -> Option<u64> {
        let mean = (self.sum + self.count / 2).checked_div_euclid(self.count)?;
        Some(u64::try_from(mean).unwrap_or(0))
    }

    /// As [`Mean::get`], and 0 of nothing.
    pub(super) fn or_zero(self) -> u64 {
        self.get().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(of: &[i128]) -> Option<u64> {
        let mut mean = Mean::default();
        of.iter().for_each(|&difference| mean.add_difference(difference));
        mean.get()
    }

    #[test]
    fn a_mean_is_rounded_to_the_nearest_and_never_negative() {
        assert_eq!(mean(&[]), None);
        assert_eq!((mean(&[3]), mean(&[3, 4]), mean(&[3, 3, 4])), (Some(3), Some(4), Some(3)));
        assert_eq!((mean(&[-5, 8]), mean(&[-5, 4]), mean(&[-7])), (Some(2), Some(0), Some(0)));
    }
}
