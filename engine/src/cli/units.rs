//! Figures for people.

use crate::memory::Bytes;

/// Bytes with a binary unit: `1.50 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// A count with a decimal unit: `124.4 M`.
pub(super) fn count(count: u64) -> String {
    const UNITS: [&str; 5] = ["", " k", " M", " G", " T"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { count.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}

/// Nanoseconds as milliseconds, to the microsecond: `1.500 ms`.
pub(super) fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// `1 unit`, `2 units`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn units_are_the_largest_that_keep_a_figure_above_one() {
        assert_eq!(super::count(999), "999");
        assert_eq!(super::count(124_439_808), "124.4 M");
    }

    #[test]
    fn times_are_told_to_the_microsecond() {
        assert_eq!(super::milliseconds(1_500_000), "1.500 ms");
        assert_eq!((super::milliseconds(499), super::milliseconds(500_001)), ("0.000 ms".into(), "0.500 ms".into()));
    }
}
