//! Times of one thing that was measured several times.

use std::time::Duration;

/// One or more times, reported by their median and how far apart they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// The times, in any order.
    ///
    /// # Panics
    /// If there are no samples.
    pub fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable();
        Self(times)
    }

    /// The middle one; of an even number the later of the two in the middle.
    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    /// The longest less the shortest, as a share of the median.
    pub fn spread(&self) -> f64 {
        let range = self.0[self.0.len() - 1] - self.0[0];
        range.as_secs_f64() / self.median().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times_ms: &[u64]) -> Samples {
        Samples::new(times_ms.iter().map(|&time_ms| Duration::from_millis(time_ms)).collect())
    }

    #[test]
    fn the_median_and_how_far_times_lie_apart_are_found() {
        assert_eq!(samples(&[30, 10, 20]).median(), Duration::from_millis(20));
        assert_eq!(samples(&[40, 10, 20, 30]).median(), Duration::from_millis(30));
        // (30 - 10) / 20.
        assert!((samples(&[30, 10, 20]).spread() - 1.0).abs() < 1e-12);
        assert_eq!(samples(&[7]).spread(), 0.0);
    }
}
