//! Figures for people.

/// Bytes with a binary unit: `1.50 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {}", UNITS[unit]) }
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

#[cfg(test)]
mod tests {
    #[test]
    fn units_are_the_largest_that_keep_a_figure_above_one() {
        assert_eq!(super::bytes(1023), "1023 B");
        assert_eq!(super::bytes(1536 * 1024), "1.50 MiB");
        assert_eq!(super::bytes(u64::MAX), "16777216.00 TiB");
        assert_eq!(super::count(999), "999");
        assert_eq!(super::count(124_439_808), "124.4 M");
    }
}
