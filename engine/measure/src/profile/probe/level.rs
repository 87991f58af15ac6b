//! Times that a probe measured, converted to what messages of that size would take in the run.

use pipezero_plan::costs::{MessageTimes, SizedTimes};

/// Adds to a kind's own sizes those that were only probed. Its own stay as they are; if none of them was probed, nothing says
/// how the probe compares with the run, and nothing is added. `num_messages` is how many of the run are of one of its sizes.
///
/// A size that was probed is brought to the run's level by the size of the run's own that is nearest by ratio, and those of less
/// than twice or more than half of that, by their messages:
///
/// - `issue` and `landing` are *scaled* by measured / probed. They are copies and sums in the rank's own time; in the midst of
///   computes every byte of them is slower, since caches are cold and other ranks use the memory too.
/// - `latency` is the run's own, plus how much longer the probe took at this size than at the run's size. It is how late a waiting
///   thread goes on once everything has arrived, which depends little on bytes and much on what the rank did before: a thread that
///   slept through a timed layer wakes later than one that only probes. So the probe says how latency grows, and never makes it
///   shorter than the run's; the ratio of two small delays would be noise. Where no rank of the run waited for any nearby size, the
///   run's latency is unknown and stored as 0, so this latency is too short as well.
///
/// No time falls with bytes beyond the run's own sizes ([`hold_rising`]).
pub(super) fn add(measured: &mut MessageTimes, probed: &[SizedTimes], num_messages: impl Fn(u64) -> u64) {
    let own = measured.sizes.clone();
    let of_size = |bytes: u64| probed.iter().find(|of| of.bytes == bytes);
    let compared = |own: &SizedTimes| {
        let weight = i128::from(num_messages(own.bytes).max(1));
        Some(Compared { run: *own, alone: *of_size(own.bytes)?, weight })
    };
    let compared: Vec<Compared> = own.iter().filter_map(compared).collect();
    for &alone in probed.iter().filter(|of| own.iter().all(|own| own.bytes != of.bytes)) {
        let Some(near) = near(&compared, alone.bytes) else { return };
        measured.sizes.push(SizedTimes {
            bytes: alone.bytes,
            issue_ns: scaled(alone, &near, |of| of.issue_ns),
            occupied_ns: alone.occupied_ns,
            latency_ns: raised(alone, &waited_for(&near), |of| of.latency_ns),
            landing_ns: scaled(alone, &near, |of| of.landing_ns),
            probed: true,
        });
    }
    measured.sizes.sort_by_key(|size| size.bytes);
    hold_rising(&mut measured.sizes, |size| &mut size.issue_ns);
    hold_rising(&mut measured.sizes, |size| &mut size.latency_ns);
    hold_rising(&mut measured.sizes, |size| &mut size.landing_ns);
}

/// One of the run's own sizes, in the run and alone.
#[derive(Clone, Copy, Debug)]
struct Compared {
    run: SizedTimes,
    alone: SizedTimes,
    weight: i128,
}

/// Those that decide the level at a size. Which ranks wait at a message, and so what it costs, depends on its place in the step
/// too, so that sizes which hardly differ count together.
fn near(compared: &[Compared], bytes: u64) -> Option<Vec<Compared>> {
    let nearest = compared.iter().map(|of| of.run.bytes).min_by_key(|&own| ratio(own, bytes))?;
    Some(compared.iter().filter(|of| ratio(of.run.bytes, nearest) < 2000).copied().collect())
}

/// Of some sizes those for which a rank waited in the run; all of them if none did. The others have latency 0 because it is
/// not known, which says nothing about the level.
fn waited_for(near: &[Compared]) -> Vec<Compared> {
    let seen: Vec<Compared> = near.iter().filter(|of| of.run.latency_ns > 0).copied().collect();
    if seen.is_empty() { near.to_vec() } else { seen }
}

/// How many times larger the larger of two sizes is, in thousandths.
fn ratio(a: u64, b: u64) -> u128 {
    1000 * u128::from(a.max(b)) / u128::from(a.min(b).max(1))
}

/// Means over messages: in the run, and alone.
fn means(near: &[Compared], time: fn(&SizedTimes) -> u64) -> [i128; 2] {
    let weight: i128 = near.iter().map(|of| of.weight).sum();
    let mean = |times: fn(&Compared) -> &SizedTimes| {
        let sum: i128 = near.iter().map(|of| of.weight * i128::from(time(times(of)))).sum();
        (sum + weight / 2) / weight.max(1)
    };
    [mean(|of| &of.run), mean(|of| &of.alone)]
}

/// Rounded to the nearest; where the time alone is 0 there is no ratio, so the difference is added instead.
fn scaled(alone: SizedTimes, near: &[Compared], time: fn(&SizedTimes) -> u64) -> u64 {
    match means(near, time) {
        [_, 0] => raised(alone, near, time),
        [in_the_run, there] => whole((i128::from(time(&alone)) * in_the_run + there / 2) / there),
    }
}

/// What it is in the run, and what the probe says more of this size.
fn raised(alone: SizedTimes, near: &[Compared], time: fn(&SizedTimes) -> u64) -> u64 {
    let [in_the_run, there] = means(near, time);
    whole(in_the_run + (i128::from(time(&alone)) - there).max(0))
}

/// Times are never negative; one that is beyond all numbers is the largest.
fn whole(ns: i128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Limits each probed time to the range between the run's own sizes around it, and lets no time fall where bytes grow: that
/// would be noise, and a line that falls would come to nothing beyond the last size. Neighbours that fall get their mean (pool adjacent violators; Barlow et al., *Statistical inference under order restrictions*, 1972).
fn hold_rising(sizes: &mut [SizedTimes], time: fn(&mut SizedTimes) -> &mut u64) {
    let mut start = 0;
    while let Some(first) = sizes[start..].iter().position(|size| size.probed).map(|index| start + index) {
        let is_own = |size: &SizedTimes| !size.probed;
        let end = sizes[first..].iter().position(is_own).map_or(sizes.len(), |index| first + index);
        let below = if first == 0 { 0 } else { *time(&mut sizes[first - 1]) };
        let above = sizes.get_mut(end).map_or(u64::MAX, |own| *time(own));
        rise(&mut sizes[first..end], time);
        for size in &mut sizes[first..end] {
            // The run's own may fall: they were measured so.
            *time(size) = (*time(size)).clamp(below.min(above), below.max(above));
        }
        start = end;
    }
}

/// The rising times that are nearest to those of some sizes.
fn rise(sizes: &mut [SizedTimes], time: fn(&mut SizedTimes) -> &mut u64) {
    // Sums and counts of neighbours that have one mean.
    let mut pools: Vec<(u128, u128)> = Vec::new();
    for size in sizes.iter_mut() {
        let mut pool = (u128::from(*time(size)), 1);
        while let Some((sum, count)) = pools.pop_if(|last| last.0 * pool.1 > pool.0 * last.1) {
            pool = (pool.0 + sum, pool.1 + count);
        }
        pools.push(pool);
    }
    let means = pools.into_iter().flat_map(|(sum, count)| (0..count).map(move |_| (sum + count / 2) / count));
    for (size, mean) in sizes.iter_mut().zip(means) {
        *time(size) = u64::try_from(mean).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_plan::costs::MessageKind;
    use pipezero_plan::testing::sized;

    fn size(bytes: u64, issue_ns: u64, latency_ns: u64, landing_ns: u64) -> SizedTimes {
        sized(bytes, [issue_ns, 0, latency_ns, landing_ns])
    }

    /// With as many messages of each own size.
    fn added(own: &[SizedTimes], probed: &[SizedTimes]) -> Vec<SizedTimes> {
        let mut times = MessageTimes { kind: MessageKind::Reduce, ranks: 2, sizes: own.to_vec() };
        add(&mut times, probed, |_| 3);
        times.sizes
    }

    #[test]
    fn issue_and_landing_are_scaled_and_latency_is_raised() {
        let own = size(1000, 300, 50, 90);
        let found =
            added(&[own], &[size(1000, 200, 20, 30), size(250, 100, 15, 10), size(4000, 501, 26, 100)]);
        let probed = |of| SizedTimes { probed: true, ..of };
        // Times 3/2 and 3, to the nearest; nothing and 6 more.
        assert_eq!(found, [probed(size(250, 150, 50, 30)), own, probed(size(4000, 752, 56, 300))]);
    }

    /// Ranks that slept before they waited are woken later than those of a probe; nothing of that is the size's.
    #[test]
    fn a_probe_takes_no_latency_away() {
        let own = size(131_072, 9, 406_000, 9);
        let alone = [(131_072, 500_000), (4096, 70_000), (262_144, 90_000), (524_288, 501_000)];
        let found = added(&[own], &alone.map(|(bytes, latency)| size(bytes, 9, latency, 9)));
        let latency: Vec<u64> = found.iter().map(|size| size.latency_ns).collect();
        assert_eq!(latency, [406_000, 406_000, 406_000, 407_000]);
        // No rank of the run waited: only what larger sizes take longer is added to its 0.
        let found = added(&[size(1000, 9, 0, 9)], &[size(1000, 9, 60, 9), size(4000, 9, 100, 9)]);
        assert_eq!([found[0].latency_ns, found[1].latency_ns], [0, 40]);
        // Of sizes that hardly differ, only those count for which a rank waited.
        let own = [size(1000, 9, 70, 9), size(1010, 9, 0, 9)];
        let found = added(&own, &[size(1000, 9, 60, 9), size(1010, 9, 65, 9), size(4000, 9, 61, 9)]);
        assert_eq!(found[2].latency_ns, 71);
    }

    #[test]
    fn beside_a_time_of_0_the_difference_is_added() {
        let own = size(1000, 10, 5, 7);
        let found = added(&[own], &[size(1000, 0, 20, 0), size(4000, 3, 10, 0)]);
        assert_eq!(found, [own, SizedTimes { probed: true, ..size(4000, 13, 5, 7) }]);
    }

    /// Each size goes by the own one that it is fewer times larger or smaller than.
    #[test]
    fn the_nearest_own_size_sets_the_level() {
        let own = [size(100, 10, 0, 10), size(10_000, 4000, 0, 4000)];
        let alone = |bytes| size(bytes, bytes / 10, 0, bytes / 10);
        let found = added(&own, &[100, 10_000, 50, 900, 1100, 20_000].map(alone));
        let issue: Vec<u64> = found.iter().map(|size| size.issue_ns).collect();
        assert_eq!(issue, [5, 10, 90, 440, 4000, 8000]);
    }

    #[test]
    fn without_a_probe_of_an_own_size_nothing_is_added() {
        let own = size(1000, 300, 50, 90);
        assert_eq!(added(&[own], &[size(4000, 1, 1, 1)]), [own]);
        assert_eq!(added(&[own], &[]), [own]);
    }

    /// Own sizes that hardly differ set one level, each by its messages; one of half the size does not count among them.
    #[test]
    fn sizes_that_hardly_differ_set_one_level() {
        let own = [size(500, 70, 30, 0), size(1000, 10, 50, 0), size(1010, 40, 10, 0)];
        let mut times = MessageTimes { kind: MessageKind::Reduce, ranks: 2, sizes: own.to_vec() };
        let alone = [500, 1000, 1010, 4000].map(|bytes| size(bytes, 10, 10, 0));
        add(&mut times, &alone, |bytes| if bytes == 1000 { 2 } else { 1 });
        // (2 * 10 + 40) / 3 and (2 * 50 + 10) / 3, beside 10; but no less than what 1010 bytes take.
        assert_eq!(times.sizes[3], SizedTimes { probed: true, ..size(4000, 40, 37, 0) });
        let mut times = MessageTimes { sizes: own.to_vec(), ..times };
        add(&mut times, &[alone[0], alone[1], alone[2], size(4000, 100, 10, 0)], |_| 1);
        assert_eq!(times.sizes[3].issue_ns, 250);
    }

    #[test]
    fn probed_times_do_not_fall() {
        let alike = |bytes, ns| size(bytes, ns, ns, ns);
        let own = [alike(100, 50), alike(400, 80)];
        // More than the run's next; less than its last, and then more than its next.
        let between = [own[0], own[1], alike(50, 60), alike(150, 40), alike(300, 90)];
        // Falling, and one that is not.
        let beyond = [(800, 100), (900, 95), (1000, 90), (1100, 97)].map(|(bytes, ns)| alike(bytes, ns));
        let found = added(&own, &[&between[..], &beyond].concat());
        let times: Vec<[u64; 3]> =
            found.iter().map(|size| [size.issue_ns, size.latency_ns, size.landing_ns]).collect();
        assert_eq!(times, [50, 50, 50, 80, 80, 95, 95, 95, 97].map(|ns| [ns; 3]));
        // The run's own may fall: it was measured so. What lies between, lies between.
        let own = [alike(100, 80), alike(400, 50)];
        let found = added(&own, &[own[0], own[1], size(200, 10, 90, 100)]);
        assert_eq!((found[1].issue_ns, found[1].latency_ns, found[1].landing_ns), (50, 80, 80));
    }

    #[test]
    fn the_largest_times_do_not_overflow() {
        let own = size(1000, u64::MAX, u64::MAX, 1);
        let found = added(&[own], &[size(1000, 2, 0, u64::MAX), size(4000, 1 << 50, 1 << 50, u64::MAX)]);
        assert_eq!(found[1], SizedTimes { probed: true, ..size(4000, u64::MAX, u64::MAX, 1) });
    }
}
