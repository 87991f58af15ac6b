//! How often each size is sent: as often as its share of the time allows, within bounds, and not at all if it allows too few.
//!
//! What a round of a size takes is known before it is sent: its emulated link says its part to the nanosecond, and what the host
//! takes beside that was measured, in the run at first and then by the last size of the probe.

use std::time::{Duration, Instant};

use pipezero_plan::costs::SizedTimes;
use pipezero_run::engine::EngineError;

use super::rounds::Round;

/// First rounds of each call, which do not count: they wake the ranks and touch memory. There are two calls: the first shows how
/// many rounds the second can have.
const NUM_WARM_UP: u32 = 2;

/// Rounds that count, of which the typical half makes the mean.
const NUM_ROUNDS: [u32; 2] = [8, 200];

/// The fewest rounds of a size that is sent.
const NUM_ROUNDS_LEAST: u32 = 2 * NUM_WARM_UP + NUM_ROUNDS[0];

/// A size to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) bytes: u64,
    /// Time on the slowest of its emulated links.
    pub(super) on_its_link: Duration,
}

/// The time that is left to one kind of message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: Duration,
    /// Bytes of a message, and what the host takes for it beside its link.
    known: (u64, Duration),
}

impl Budget {
    /// What one kind of message may take, of which one size was measured in the run.
    pub(super) fn new(left: Duration, own: &SizedTimes) -> Self {
        let times = [own.issue_ns, own.latency_ns, own.landing_ns];
        Self { left, known: (own.bytes, times.map(Duration::from_nanos).iter().sum()) }
    }

    /// Sends rounds of a size, after which `num_left` sizes are left, this one included; `None` if time will not last.
    pub(super) fn spend(
        &mut self,
        size: Size,
        num_left: u32,
        send: &mut impl FnMut(usize) -> Result<Vec<Round>, EngineError>,
    ) -> Result<Option<Vec<Round>>, EngineError> {
        if self.expected(size).saturating_mul(NUM_ROUNDS_LEAST) > self.left {
            return Ok(None);
        }
        let share = self.left / num_left.max(1);
        let start = Instant::now();
        send(NUM_WARM_UP as usize)?;
        // With what lies around a round: where ranks are many, beginning a round together takes longer than the message.
        let took = start.elapsed();
        let num_rounds = num_rounds([share, self.left].map(|of| of.saturating_sub(took)), took / NUM_WARM_UP);
        let rounds = num_rounds.map(|num_rounds| send((NUM_WARM_UP + num_rounds) as usize)).transpose()?;
        self.left = self.left.saturating_sub(start.elapsed());
        Ok(rounds.map(|mut rounds| {
            let fastest = rounds.iter().map(Round::took_ns).min().unwrap_or(0);
            self.known = (size.bytes, Duration::from_nanos(fastest).saturating_sub(size.on_its_link));
            rounds.split_off(NUM_WARM_UP as usize)
        }))
    }

    /// What a round of a size will take: its link, and the host in proportion to bytes.
    fn expected(&self, size: Size) -> Duration {
        let (bytes, host) = self.known;
        let host = host.as_secs_f64() * size.bytes as f64 / bytes.max(1) as f64;
        size.on_its_link.saturating_add(Duration::try_from_secs_f64(host).unwrap_or(Duration::MAX))
    }
}

/// Rounds that count which fit a size's share of the time, within bounds; `None` if the fewest do not fit into all that is left.
fn num_rounds([share, left]: [Duration; 2], round: Duration) -> Option<u32> {
    let fitting = |time: Duration| {
        let num_rounds = (time.as_nanos() / round.as_nanos().max(1)).saturating_sub(u128::from(NUM_WARM_UP));
        u32::try_from(num_rounds).unwrap_or(u32::MAX)
    };
    let [least, most] = NUM_ROUNDS;
    (fitting(left) >= least).then(|| fitting(share).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_plan::testing::sized;

    #[test]
    fn rounds_fit_a_share_of_the_time_within_bounds() {
        let [ms, us] = [Duration::from_millis, Duration::from_micros];
        let num_rounds = |share, left, round| num_rounds([share, left], round);
        // Two of them do not count.
        assert_eq!(num_rounds(ms(40), ms(400), us(1000)), Some(38));
        assert_eq!(num_rounds(ms(40), ms(400), us(40_000)), Some(8));
        assert_eq!(num_rounds(ms(40), ms(40), us(1)), Some(200));
        assert_eq!(num_rounds(ms(40), ms(40), Duration::ZERO), Some(200));
        // What was expected to fit does not.
        assert_eq!(num_rounds(ms(40), ms(400), us(40_001)), None);
        assert_eq!(num_rounds(Duration::ZERO, Duration::ZERO, us(1)), None);
    }

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * 24 * 3600)
    }

    fn near(bytes: u64) -> Size {
        Size { bytes, on_its_link: Duration::ZERO }
    }

    /// In days, so that no wait of the test's own counts.
    #[test]
    fn sizes_that_would_take_too_long_are_not_sent() {
        let mut budget = Budget { left: days(100), known: (100, days(10)) };
        // 8 rounds and the first ones of both calls: 12 of 10 days for 100 bytes.
        assert_eq!((budget.expected(near(100)), NUM_ROUNDS_LEAST), (days(10), 12));
        let mut num_calls = 0;
        let mut send = |num_rounds: usize| {
            num_calls += 1;
            Ok(vec![Round { rows: Vec::new() }; num_rounds])
        };
        assert!(budget.spend(near(100), 3, &mut send).unwrap().is_none());
        let slow = Size { bytes: 50, on_its_link: days(4) };
        assert!(budget.spend(slow, 3, &mut send).unwrap().is_none());
        let rounds = budget.spend(near(50), 3, &mut send).unwrap().unwrap();
        // What takes no days is sent as often as can be, and the first ones are left out.
        assert_eq!((num_calls, rounds.len()), (2, 200));
        // Now it is known that only the link takes time.
        assert_eq!((budget.known, budget.expected(slow)), ((50, Duration::ZERO), days(4)));
    }

    /// Nothing is sent to learn that a link is slow: the run file says it, and the run has measured the rest.
    #[test]
    fn a_first_size_is_expected_to_take_what_it_took_in_the_run() {
        let ns = Duration::from_nanos;
        let size = Size { bytes: 1000, on_its_link: ns(50_000) };
        let mut budget = Budget::new(ns(12 * 50_123 - 1), &sized(1000, [100, 0, 20, 3]));
        assert_eq!(budget.expected(size), ns(50_123));
        assert_eq!(budget.expected(Size { bytes: 4000, on_its_link: ns(7) }), ns(7 + 4 * 123));
        let mut nothing = |_| panic!("it is not sent");
        assert!(budget.spend(size, 1, &mut nothing).unwrap().is_none());
    }
}
