//! How times are written: in which unit, and where the ticks of an axis are.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// How times are written: in a unit, of which `per_unit` make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    per_unit: u64,
    unit: &'static str,
}

impl TimeScale {
    /// For nanoseconds up to a time: the largest of s, ms, µs and ns in which that is at least 10, so that a
    /// thousandth of it is still visible.
    pub fn nanoseconds(longest: u64) -> Self {
        let units = [(1_000_000_000, " s"), (1_000_000, " ms"), (1000, " µs")];
        let fitting = units.into_iter().find(|&(per_unit, _)| longest / 10 >= per_unit);
        let (per_unit, unit) = fitting.unwrap_or((1, " ns"));
        Self { per_unit, unit }
    }

    /// For times without a unit, in `parts` of one: those of a [`crate::simulate::Study`].
    pub fn parts(parts: u64) -> Self {
        Self { per_unit: parts.max(1), unit: "" }
    }

    /// A time in the unit, to the nearest thousandth of it.
    pub fn format(self, time: u64) -> String {
        let wide = (u128::from(time) * 1000 + u128::from(self.per_unit) / 2) / u128::from(self.per_unit);
        let (whole, thousandths) = (wide / 1000, wide % 1000);
        let decimals = format!("{thousandths:03}");
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        format!("{whole}{point}{decimals}{}", self.unit)
    }

    /// Round times from 0 up to a time, evenly spaced, at least one and as many as `most` allows. A time of 0 has one.
    pub(super) fn ticks(self, longest: u64, most: u64) -> Vec<u64> {
        match self.round_steps().find(|&step| longest / step < most.max(1)) {
            Some(step) => (0..=longest / step).map(|tick| tick * step).collect(),
            None => vec![0],
        }
    }

    /// 1, 2 and 5 times the powers of ten of the unit, ascending, from the first that are whole.
    fn round_steps(self) -> impl Iterator<Item = u64> {
        // Down to the smallest power of ten of the unit that times can show.
        let mut smallest = self.per_unit;
        while smallest.is_multiple_of(10) {
            smallest /= 10;
        }
        let powers = core::iter::successors(Some(smallest), |power| power.checked_mul(10));
        powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |times: u64| power.checked_mul(times)))
    }
}

/// Bytes in the largest binary unit in which they are at least 1, with one decimal, rounded down.
pub(super) fn bytes(num_bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|&(bits, _)| num_bytes >> bits > 0) {
        Some((bits, unit)) => {
            let tenths = (u128::from(num_bytes) * 10) >> bits;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{num_bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_unit_and_no_trailing_zeros() {
        let of = |time| TimeScale::nanoseconds(time).format(time);
        assert_eq!(
            [0, 9_999, 10_000, 12_345, 12_345_678, 1_500_000_000, 15_000_000_000].map(of),
            ["0 ns", "9999 ns", "10 µs", "12.345 µs", "12.346 ms", "1500 ms", "15 s"]
        );
        assert_eq!(TimeScale::parts(4).format(105), "26.25");
        assert_eq!(TimeScale::nanoseconds(u64::MAX).format(u64::MAX), "18446744073.71 s");
    }

    #[test]
    fn ticks_are_round_and_not_too_many() {
        assert_eq!(TimeScale::parts(1).ticks(33, 10), [0, 5, 10, 15, 20, 25, 30]);
        assert_eq!(TimeScale::parts(2).ticks(57, 5), [0, 20, 40]);
        for longest in (0..200).chain([u64::MAX]) {
            for (most, parts) in (1..12).flat_map(|most| (1..7).map(move |parts| (most, parts))) {
                let ticks = TimeScale::parts(parts).ticks(longest, most);
                assert!(ticks.len() as u64 <= most && ticks[0] == 0, "{longest}: {ticks:?}");
                assert!(ticks.iter().all(|&tick| tick <= longest));
            }
        }
    }

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!(
            [0, 1023, 1024, 1536, 3 << 30].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
    }
}
