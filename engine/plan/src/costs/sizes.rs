//! What a message of any size costs, from those of the sizes that were measured.

use super::file::{MessageTimes, SizedTimes};

impl SizedTimes {
    /// A size of which `time` says each part.
    fn of_parts(bytes: u64, time: impl Fn(fn(&Self) -> u64) -> u64) -> Self {
        Self {
            bytes,
            issue_ns: time(|size| size.issue_ns),
            occupied_ns: time(|size| size.occupied_ns),
            latency_ns: time(|size| size.latency_ns),
            landing_ns: time(|size| size.landing_ns),
            probed: false,
        }
    }
}

impl MessageTimes {
    /// A size that was measured is as it was measured. Others lie on the line between their neighbours, and beyond the outer
    /// ones on the same line, never falling; where only one size was measured, all but the latency is in proportion to bytes.
    ///
    /// For this, sizes of less than twice the smallest of them are one, their mean: what they differ in is where they stand in
    /// the step, and the line through two that are a few bytes apart would make that a price of bytes.
    pub(super) fn at(&self, bytes: u64) -> SizedTimes {
        if let Some(measured) = self.sizes.iter().find(|size| size.bytes == bytes) {
            return *measured;
        }
        let sizes: Vec<SizedTimes> = groups(&self.sizes).map(mean).collect();
        let (a, b) = match sizes.as_slice() {
            [only] => (SizedTimes { latency_ns: only.latency_ns, ..SizedTimes::default() }, *only),
            sizes => {
                let above = sizes.partition_point(|size| size.bytes < bytes).clamp(1, sizes.len() - 1);
                (sizes[above - 1], sizes[above])
            }
        };
        SizedTimes::of_parts(bytes, |part| line([(a.bytes, part(&a)), (b.bytes, part(&b))], bytes))
    }
}

/// Ascending sizes, each with those that are less than twice as large.
fn groups(mut sizes: &[SizedTimes]) -> impl Iterator<Item = &[SizedTimes]> {
    std::iter::from_fn(move || {
        let smallest = sizes.first()?.bytes;
        let (group, rest) = sizes.split_at(sizes.partition_point(|size| size.bytes / 2 < smallest.max(1)));
        sizes = rest;
        Some(group)
    })
}

/// The mean of some sizes. A latency of 0 was not observed: no rank waited there.
fn mean(sizes: &[SizedTimes]) -> SizedTimes {
    let of_all = |of: fn(&SizedTimes) -> u64| mean_of(sizes.iter().map(of));
    let latencies = sizes.iter().map(|size| size.latency_ns);
    let latency_ns = mean_of(latencies.filter(|&latency| latency > 0));
    SizedTimes { latency_ns, ..SizedTimes::of_parts(of_all(|size| size.bytes), of_all) }
}

/// To the nearest; 0 of nothing.
fn mean_of(values: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + u128::from(value), count + 1));
    u64::try_from((sum + count / 2).checked_div(count).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The line through two points, at `x`, to the nearest and not below 0. Beyond the points a falling line is level: noise
/// makes no message of enough bytes free.
fn line([(x0, y0), (x1, y1)]: [(u64, u64); 2], x: u64) -> u64 {
    if x0 == x1 {
        return y1;
    }
    if y1 < y0 && !(x0..=x1).contains(&x) {
        return if x < x0 { y0 } else { y1 };
    }
    let [x0, y0, x1, y1, x] = [x0, y0, x1, y1, x].map(i128::from);
    let (rise, run) = ((y1 - y0) * (x - x0), x1 - x0);
    let y = y0 + (2 * rise + run).div_euclid(2 * run);
    u64::try_from(y.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::MessageKind;
    use crate::costs::whole::TIME_NS_MAX;
    use crate::testing::sized;

    fn times(sizes: &[(u64, u64)]) -> MessageTimes {
        let size = |&(bytes, ns): &(u64, u64)| sized(bytes, [ns, 2 * ns, ns, 3 * ns]);
        MessageTimes { kind: MessageKind::Reduce, ranks: 2, sizes: sizes.iter().map(size).collect() }
    }

    #[test]
    fn between_sizes_times_lie_on_a_line_and_beyond_them_on_the_nearest() {
        let times = times(&[(100, 10), (200, 30), (600, 40)]);
        let occupied = |bytes| times.at(bytes).occupied_ns;
        assert_eq!([100, 200, 600].map(occupied), [20, 60, 80]);
        assert_eq!([150, 400].map(occupied), [40, 70]);
        // The lines of the outer pairs: 0.4 and 0.05 a byte, and nothing costs less than nothing.
        assert_eq!([75, 0, 1000].map(occupied), [10, 0, 100]);
        assert_eq!(times.at(150), sized(150, [20, 40, 20, 60]));
    }

    /// Sizes that differ by a few percent give no slope, and where no rank waited no latency was observed.
    #[test]
    fn sizes_that_hardly_differ_are_one() {
        let mut times = times(&[(1000, 50), (1010, 90), (1990, 100), (4000, 180)]);
        times.sizes[1].latency_ns = 0;
        // A size that was measured is as it was measured.
        assert_eq!(times.at(1010), times.sizes[1]);
        // The mean of the first three, at (1000 + 1010 + 1990) / 3 bytes, and the last.
        assert_eq!([1333, 2667, 4000, 5334].map(|bytes| times.at(bytes).issue_ns), [80, 130, 180, 230]);
        assert_eq!([1333, 4000].map(|bytes| times.at(bytes).latency_ns), [75, 180]);
        // Two and no more are in proportion to bytes.
        times.sizes.truncate(2);
        assert_eq!([2010, 1005].map(|bytes| times.at(bytes).issue_ns), [140, 70]);
    }

    #[test]
    fn falling_times_are_level_beyond_the_measured_sizes() {
        let times = times(&[(100, 50), (200, 10)]);
        assert_eq!([0, 100, 150, 200, 10_000].map(|bytes| times.at(bytes).issue_ns), [50, 50, 30, 10, 10]);
    }

    #[test]
    fn one_size_stands_for_all_in_proportion_but_for_the_latency() {
        let times = times(&[(100, 10)]);
        assert_eq!(times.at(250), sized(250, [25, 50, 10, 75]));
        assert_eq!(times.at(0), sized(0, [0, 0, 10, 0]));
    }

    #[test]
    fn the_largest_sizes_and_times_do_not_overflow() {
        let times = times(&[(0, 0), (1, TIME_NS_MAX)]);
        assert_eq!(times.at(u64::MAX).issue_ns, u64::MAX);
        assert_eq!(times.at(1).landing_ns, 3 * TIME_NS_MAX);
    }
}
