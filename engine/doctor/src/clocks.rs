//! How far the clocks of processes are from that of rank 0's, how surely that is known, and how they drift.

use std::time::{Duration, Instant};

use pipezero_comm::CommError;
use pipezero_comm::world::ClockOffset;
use serde::{Deserialize, Serialize};

use super::check::{Check, Part};
use super::team::Team;

/// Errors up to here are small beside instructions of real runs.
const ERROR_MAX_NS: u64 = 1_000_000;

/// Nanoseconds in a millisecond that a clock may drift: quartz stays below a tenth of that.
const DRIFT_MAX_PPM: f64 = 500.0;

/// The clock of this process, as it was at the beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    offset: ClockOffset,
    at: Instant,
}

impl Begun {
    /// Measures now.
    pub(super) fn now(team: &Team) -> Result<Self, CommError> {
        Ok(Self { offset: team.clock_offset()?, at: Instant::now() })
    }

    /// Measures again, in each process.
    pub(super) fn until_now(self, team: &Team) -> Result<Vec<ProcessClock>, CommError> {
        let end = team.clock_offset()?;
        let first_rank = team.world().local_ranks().start;
        team.gather(&ProcessClock { first_rank, begin: self.offset, end, between: self.at.elapsed() })
    }
}

/// The clock of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessClock {
    /// Its first rank.
    pub first_rank: usize,
    /// At the beginning.
    pub begin: ClockOffset,
    /// At the end.
    pub end: ClockOffset,
    /// The time between the two.
    pub(crate) between: Duration,
}

impl ProcessClock {
    /// How much faster it runs than that of rank 0's process, in millionths, and how wrong that may be.
    pub fn drift_ppm(&self) -> [f64; 2] {
        let between_ns = self.between.as_nanos().max(1) as f64;
        let moved_ns = i128::from(self.end.ahead_ns) - i128::from(self.begin.ahead_ns);
        let error_ns = u128::from(self.begin.error_ns) + u128::from(self.end.error_ns);
        [moved_ns as f64, error_ns as f64].map(|ns| 1e6 * ns / between_ns)
    }
}

/// Whether recorded steps can be compared between processes.
pub(super) fn judge(clocks: &[ProcessClock]) -> Vec<Check> {
    let others = || clocks.iter().filter(|clock| clock.first_rank > 0);
    if others().next().is_none() {
        let rule = "offsets are known to 1 ms";
        return vec![Check::new(Part::Clocks, "offsets", "one process, one clock", rule)];
    }
    let least_known = others().max_by_key(|clock| clock.begin.error_ns.max(clock.end.error_ns));
    let fastest = others().max_by(|a, b| surely(a).total_cmp(&surely(b)));
    let offset = least_known.map(|clock| {
        let error_ns = clock.begin.error_ns.max(clock.end.error_ns);
        let value = format!("known to {:.1} µs at worst, of rank {}", error_ns as f64 / 1e3, clock.first_rank);
        Check::new(Part::Clocks, "offsets", value, "offsets are known to 1 ms").warns_unless(
            error_ns <= ERROR_MAX_NS,
            "figures of `profile` and `compare` on these hosts are uncertain by as much: look for what delays small messages",
        )
    });
    let drift = fastest.map(|clock| {
        let [ppm, error_ppm] = clock.drift_ppm();
        let value = format!("{ppm:+.1} ppm of rank {}, known to {error_ppm:.1} ppm", clock.first_rank);
        let rule = format!("clocks drift by less than {DRIFT_MAX_PPM} ppm, as far as is known");
        Check::new(Part::Clocks, "drift", value, rule).warns_unless(
            surely(clock) <= DRIFT_MAX_PPM,
            "look at the clock source of this host: a virtual machine may have been suspended meanwhile",
        )
    });
    offset.into_iter().chain(drift).collect()
}

/// What a clock drifts at least.
fn surely(clock: &ProcessClock) -> f64 {
    let [ppm, error_ppm] = clock.drift_ppm();
    ppm.abs() - error_ppm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    fn clock(first_rank: usize, begin: [i64; 2], end: [i64; 2]) -> ProcessClock {
        let offset = |[ahead_ns, error_ns]: [i64; 2]| ClockOffset { ahead_ns, error_ns: error_ns as u64 };
        ProcessClock { first_rank, begin: offset(begin), end: offset(end), between: Duration::from_secs(10) }
    }

    fn verdicts(clocks: &[ProcessClock]) -> Vec<Verdict> {
        judge(clocks).iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn what_is_not_known_well_or_drifts_is_warned_of() {
        let first = clock(0, [0, 0], [0, 0]);
        assert_eq!(verdicts(&[first]), [Verdict::Ok]);
        // 100 µs in 10 s are 10 ppm.
        let good = clock(1, [1 << 40, 20_000], [(1 << 40) + 100_000, 20_000]);
        assert_eq!(good.drift_ppm(), [10.0, 4.0]);
        assert_eq!(verdicts(&[first, good]), [Verdict::Ok, Verdict::Ok]);
        let vague = clock(2, [0, 2_000_000], [0, 20_000]);
        assert_eq!(verdicts(&[first, good, vague]), [Verdict::Warning, Verdict::Ok]);
        let fast = clock(2, [0, 20_000], [-6_000_000, 20_000]);
        assert_eq!(verdicts(&[first, good, fast]), [Verdict::Ok, Verdict::Warning]);
    }
}
