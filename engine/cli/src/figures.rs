//! Numbers, bytes, times and shares as the text of tables.

use pipezero_plan::Bytes;

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

/// A time in the largest unit that keeps it above one: `18.52 ms`, `0` for no time.
pub(super) fn nanoseconds(ns: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
    let value = ns as f64;
    match UNITS.into_iter().find(|(_, unit)| value >= *unit) {
        None => "0".to_owned(),
        Some(("ns", _)) => format!("{ns} ns"),
        Some((name, unit)) => format!("{:.2} {name}", value / unit),
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A share: `12.34 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// `1 unit`, `2 units`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `rank 3`, `ranks 0, 1`.
pub(super) fn named_ranks(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, numbers.join(", "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn units_are_the_largest_that_keep_a_figure_above_one() {
        assert_eq!(super::count(999), "999");
        assert_eq!(super::count(124_439_808), "124.4 M");
    }

    #[test]
    fn times_are_written_in_the_largest_unit_that_fits() {
        for (ns, expected) in [
            (0, "0"),
            (999, "999 ns"),
            (1500, "1.50 µs"),
            (18_522_000, "18.52 ms"),
            (61_000_000_000, "61.00 s"),
        ] {
            assert_eq!(super::nanoseconds(ns), expected);
        }
    }
}
