//! How often each size is sent: as often as its share of the time allows, within bounds.

use std::time::{Duration, Instant};

use super::rounds::Round;
use crate::engine::EngineError;

/// First rounds of each call, which do not count: they wake the ranks and touch memory. There are two calls: the first tells how
/// many rounds the second can have.
const NUM_WARM_UP: usize = 2;

/// Rounds that count, of which the typical half makes the mean.
const NUM_ROUNDS: [u64; 2] = [8, 200];

/// The time that is left to one kind of message, and what it has taken so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: Duration,
    /// Bytes of the last size, and what its fastest round took.
    last: Option<(u64, Duration)>,
}

impl Budget {
    /// What one kind of message may take.
    pub(super) fn new(left: Duration) -> Self {
        Self { left, last: None }
    }

    /// Sends rounds of a size, after which `num_left` sizes are left, this one included; `None` if time will not last.
    pub(super) fn spend(
        &mut self,
        bytes: u64,
        num_left: u64,
        send: &mut impl FnMut(usize) -> Result<Vec<Round>, EngineError>,
    ) -> Result<Option<Vec<Round>>, EngineError> {
        if self.expected(bytes) > self.left {
            return Ok(None);
        }
        let start = Instant::now();
        send(NUM_WARM_UP)?;
        // With what lies around a round: where ranks are many, meeting takes longer than the message.
        let round = start.elapsed() / NUM_WARM_UP as u32;
        let num_rounds = NUM_WARM_UP + num_rounds(self.left / num_left.max(1) as u32, round);
        let mut rounds = send(num_rounds)?;
        self.left = self.left.saturating_sub(start.elapsed());
        let fastest = rounds.iter().map(|round| round.step_ns).min().unwrap_or(0);
        self.last = Some((bytes, Duration::from_nanos(fastest)));
        Ok(Some(rounds.split_off(NUM_WARM_UP)))
    }

    /// What the fewest rounds of a size will take, by the fastest one of the last size: nothing is known of the first.
    fn expected(&self, bytes: u64) -> Duration {
        let Some((last_bytes, round)) = self.last else { return Duration::ZERO };
        let growth = bytes as f64 / last_bytes.max(1) as f64;
        let seconds = round.as_secs_f64() * growth * (NUM_ROUNDS[0] + 2 * NUM_WARM_UP as u64) as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// Rounds that fit a share of the time, within bounds.
fn num_rounds(share: Duration, round: Duration) -> usize {
    let fitting = share.as_nanos() / round.as_nanos().max(1);
    let [least, most] = NUM_ROUNDS.map(u128::from);
    fitting.clamp(least, most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fit_a_share_of_the_time_within_bounds() {
        let [ms, us] = [Duration::from_millis, Duration::from_micros];
        assert_eq!(num_rounds(ms(40), us(1000)), 40);
        assert_eq!(num_rounds(ms(40), us(40_000)), 8);
        assert_eq!(num_rounds(ms(40), us(1)), 200);
        assert_eq!(num_rounds(ms(40), Duration::ZERO), 200);
    }

    /// In days, so that no wait of the test's own counts.
    #[test]
    fn sizes_that_would_take_too_long_are_not_sent() {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        let mut budget = Budget { left: days(100), last: Some((100, days(10))) };
        // 8 rounds and the first ones of both calls: 12 of 10 days for 100 bytes.
        assert_eq!(budget.expected(100), days(120));
        let mut num_calls = 0;
        let mut send = |num_rounds: usize| {
            num_calls += 1;
            Ok(vec![Round { rows: Vec::new(), step_ns: 0 }; num_rounds])
        };
        assert!(budget.spend(100, 3, &mut send).unwrap().is_none());
        let rounds = budget.spend(50, 3, &mut send).unwrap().unwrap();
        // What takes no days is sent as often as can be, and the first ones are left out.
        assert_eq!((num_calls, rounds.len()), (2, 200));
    }
}
