//! Bytes as people read them.

use std::fmt;

/// A number of bytes; displayed with a binary unit, as `1.50 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.2} {}", UNITS[unit]),
        }
    }
}

impl Bytes {
    /// Both as text, so that two that differ also look it: to the byte, where they would round to the same.
    pub fn distinct(self, other: Self) -> [String; 2] {
        let rounded = [self, other].map(|bytes| bytes.to_string());
        if self == other || rounded[0] != rounded[1] {
            return rounded;
        }
        [self, other].map(|Self(bytes)| format!("{bytes} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn what_differs_never_looks_the_same() {
        let gib = 1 << 30;
        let apart = |a: u64, b: u64| Bytes(a).distinct(Bytes(b)).join(" of ");
        assert_eq!(apart(2 * gib + 1, 2 * gib), "2147483649 bytes of 2147483648 bytes");
        assert_eq!(apart(3 * gib, 2 * gib), "3.00 GiB of 2.00 GiB");
        assert_eq!(apart(gib, gib), "1.00 GiB of 1.00 GiB");
        assert_eq!(apart(1, 2), "1 B of 2 B");
        for difference in 1..10_000 {
            let [a, b] = Bytes(gib).distinct(Bytes(gib + 1000 * difference));
            assert_ne!(a, b);
        }
    }

    #[test]
    fn the_unit_is_the_largest_that_keeps_the_figure_above_one() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1536 * 1024).to_string(), "1.50 MiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16.00 EiB");
    }
}
