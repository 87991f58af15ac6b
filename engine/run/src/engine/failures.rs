//! What processes tell each other after a stop, and what is to be thought of one that says nothing.
//!
//! A process that is known to have ended is a cause. One that others have waited for in vain, as long as any wait may last, and that does not
//! answer now either, is one too: it is frozen, or cut off. Where nobody has missed it, it may only be slow, on a host that has much else to do, and the
//! report says no more than that.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use pipezero_comm::world::World;

use super::error::Report;
use crate::executor::{Cause, CauseKind, RankFailure, ReportedFailure};

/// How long a rank may take to notice that others have stopped, where ranks are processes: one that is frozen never answers, and the launcher ends
/// those that are left soon after the first.
pub(super) const GRACE_OF_PROCESSES: Duration = Duration::from_millis(600);
/// How long other processes may take whose host has much else to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the reports of other processes are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeForReports {
    /// Where a rank has been waited for in vain.
    first: Duration,
    /// Beside that, where none has.
    patience: Duration,
}

impl TimeForReports {
    /// Where a process collects the failures of its own ranks for `grace`: one that fails later has as long. No wait between ranks is longer than
    /// `timeout`.
    pub(super) fn after(grace: Duration, timeout: Duration) -> Self {
        Self { first: 2 * grace, patience: PATIENCE.min(timeout) }
    }
}

/// Stops a world none of whose ranks runs a program, since this process cannot go on: how the ranks of each process have failed.
pub fn stopped(world: &dyn World, cause: impl Into<Cause>, timeout: Duration) -> Report {
    world.stop();
    let mut failures = vec![failure_of(world, world.local_ranks().start, cause.into())];
    add_reported(world, TimeForReports::after(GRACE_OF_PROCESSES.min(timeout), timeout), &mut failures);
    Report::new(failures)
}

/// As [`stopped`], for a reason that is known in words alone: because a process has ended, or because one has not come in time.
pub fn gave_up(world: &dyn World, message: String, timeout: Duration) -> Report {
    let has_any_ended = (0..world.size()).any(|rank| world.has_ended(rank));
    let kind = if has_any_ended { CauseKind::Stopped } else { CauseKind::TimedOut };
    stopped(world, Cause::GaveUp { kind, message }, timeout)
}

/// Exchanges the failures of this process's ranks for those of all others.
pub(super) fn add_reported(world: &dyn World, time: TimeForReports, failures: &mut Vec<RankFailure>) {
    let own: Vec<ReportedFailure> = failures.iter().map(ReportedFailure::from).collect();
    let own = serde_json::to_vec(&own).expect("failures have string keys and finite depth");
    let start = Instant::now();
    let mut heard = reported(world, own.clone(), time.first);
    let known = failures.iter().chain(heard.iter().flat_map(|(_, failures)| failures.iter().flatten()));
    // Who has been waited for in vain is frozen. Where nobody has, those that have not answered are only slow.
    if !has_timed_out(known) && heard.iter().any(|(_, failures)| failures.is_none()) {
        heard = reported(world, own, time.patience);
    }
    let waited = start.elapsed();
    let mut silent = Vec::new();
    for (ranks, reported) in heard {
        match reported {
            Some(reported) => failures.extend(reported),
            None => silent.extend(ranks),
        }
    }
    let silent = without_answer(failures, silent, |rank| world.has_ended(rank), waited);
    failures.extend(silent.into_iter().map(|(rank, cause)| failure_of(world, rank, cause)));
}

/// A rank's failure after its process was suspended for `time`: by SIGSTOP, a debugger or the migration of a virtual machine. Whatever the
/// rank then waited for or could not do is an effect of that. The process has measured the time itself, so this holds even if ranks have
/// waited for each other in a circle.
pub(super) fn after_suspension(failure: RankFailure, time: Duration) -> RankFailure {
    match failure.cause.kind() {
        CauseKind::TimedOut | CauseKind::Stopped => {
            RankFailure { cause: Cause::Suspended { time, then: Box::new(failure.cause) }, ..failure }
        }
        _ => failure,
    }
}

/// A rank's failure, where it is now as far as is known.
pub(super) fn failure_of(world: &dyn World, rank: usize, cause: Cause) -> RankFailure {
    RankFailure { rank, position: world.positions().get(rank), cause }
}

/// What the other processes say of their ranks' failures in this time.
fn reported(
    world: &dyn World,
    own: Vec<u8>,
    time: Duration,
) -> Vec<(Range<usize>, Option<Vec<RankFailure>>)> {
    let others =
        world.exchange_failures(own, time).into_iter().filter(|(ranks, _)| *ranks != world.local_ranks());
    let read = |report: Vec<u8>| serde_json::from_slice::<Vec<ReportedFailure>>(&report).ok();
    let failures = |report| Some(read(report)?.into_iter().map(RankFailure::from).collect());
    others.map(|(ranks, report)| (ranks, report.and_then(failures))).collect()
}

/// What is to be thought of ranks whose processes have said nothing in the time that was waited for them.
fn without_answer(
    failures: &[RankFailure],
    silent: Vec<usize>,
    has_ended: impl Fn(usize) -> bool,
    waited: Duration,
) -> Vec<(usize, Cause)> {
    let missed = waited_for(failures);
    // Where none of them was named, each may be the one that was waited for.
    let is_any_named = silent.iter().any(|rank| missed.contains(rank));
    let may_all_be_missed = has_timed_out(failures) && !is_any_named;
    let cause = |rank: usize| {
        if has_ended(rank) {
            Cause::Ended
        } else if may_all_be_missed || missed.contains(&rank) {
            Cause::Silent
        } else {
            Cause::Late { waited }
        }
    };
    silent.into_iter().map(|rank| (rank, cause(rank))).collect()
}

fn has_timed_out<'a>(failures: impl IntoIterator<Item = &'a RankFailure>) -> bool {
    failures.into_iter().any(|failure| failure.cause.kind() == CauseKind::TimedOut)
}

/// The ranks for which others have waited until their time was up, and those for which these waited themselves, and so on.
pub(super) fn waited_for(failures: &[RankFailure]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    loop {
        let missing = failures.iter().flat_map(|RankFailure { rank, cause, .. }| match cause.kind() {
            CauseKind::TimedOut => cause.waits_for(),
            CauseKind::Stopped if found.contains(rank) => cause.waits_for(),
            _ => &[],
        });
        let missing: BTreeSet<usize> = missing.copied().collect();
        if missing == found {
            return found;
        }
        found = missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_comm::CommError;
    use pipezero_comm::world::Position;

    fn failure(rank: usize, cause: CommError) -> RankFailure {
        RankFailure { rank, position: Position::Idle, cause: Cause::Comm(cause) }
    }

    fn timeout(missing: Vec<usize>) -> CommError {
        CommError::Timeout { waited: Duration::from_secs(3), operation: "a transfer".to_owned(), missing }
    }

    fn interrupted(missing: Vec<usize>) -> CommError {
        CommError::Interrupted { operation: "a transfer".to_owned(), missing }
    }

    /// As it comes from the other process.
    fn reported(failure: &RankFailure) -> RankFailure {
        let sent = serde_json::to_vec(&ReportedFailure::from(failure)).unwrap();
        RankFailure::from(serde_json::from_slice::<ReportedFailure>(&sent).unwrap())
    }

    #[test]
    fn who_was_waited_for_is_found_along_the_waits() {
        let failures = [
            failure(3, interrupted(vec![5])),
            failure(5, interrupted(vec![4])),
            failure(1, timeout(vec![3])),
            // Nobody has waited for rank 0, so that it may just have begun to wait for rank 2.
            failure(0, interrupted(vec![2])),
        ];
        assert_eq!(waited_for(&failures), BTreeSet::from([3, 4, 5]));
        assert_eq!(waited_for(&failures.each_ref().map(reported)), BTreeSet::from([3, 4, 5]));
        assert_eq!(waited_for(&failures[3..]), BTreeSet::new());
        // Ranks that wait for each other.
        let circle = [failure(0, timeout(vec![1])), failure(1, interrupted(vec![0]))];
        assert_eq!(waited_for(&circle), BTreeSet::from([0, 1]));
    }

    #[test]
    fn a_process_that_was_suspended_is_the_cause_unless_another_has_ended() {
        let seconds = Duration::from_secs(3);
        let failed = |rank, cause| after_suspension(failure(rank, cause), seconds);
        let thawed = reported(&failed(2, timeout(vec![1])));
        let suspended = "rank 2 at: answers again: its process was suspended for 3.0s, and then waited 3.0s for rank 1 in a transfer";
        let waited = "rank 1 at: waited 3.0s for rank 2 in a transfer";
        assert_eq!(report(vec![failure(1, timeout(vec![2])), thawed], &[]), format!("{suspended}; {waited}"));
        let thawed = reported(&failed(2, timeout(vec![1])));
        let ended = "rank 4, last heard of at: does not answer: its process has ended";
        assert_eq!(
            report(vec![failure(1, timeout(vec![2])), thawed], &[4]),
            format!("{ended}; {suspended}; {waited}")
        );
        let device = CommError::Device { reason: "the GPU is gone".to_owned() };
        assert_eq!(failed(1, device.clone()).cause.to_string(), device.to_string());
    }

    /// The report of failures beside ranks that say nothing, the last of which has ended.
    fn report(mut failures: Vec<RankFailure>, silent: &[usize]) -> String {
        let last = silent.last().copied();
        let causes = without_answer(
            &failures,
            silent.to_vec(),
            |rank| Some(rank) == last,
            Duration::from_millis(6200),
        );
        failures.extend(causes.into_iter().map(|(rank, cause)| RankFailure {
            rank,
            position: Position::Idle,
            cause,
        }));
        let report = Report::new(failures);
        assert_eq!(report.speaker(), Some(1));
        let shown = report.to_string().replace(" a point before or after the instructions of a step", "");
        shown.lines().filter_map(|line| line.strip_prefix("  ")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn who_is_dead_comes_before_who_is_missed_and_who_may_be_alive() {
        let stopped = || failure(1, CommError::Stopped);
        assert_eq!(
            report(vec![stopped()], &[0, 4]),
            "rank 4, last heard of at: does not answer: its process has ended; \
             rank 0, last heard of at: did not answer in 6.2s, and may be alive; \
             rank 1 at: stopped because another rank failed"
        );
        assert_eq!(
            report(vec![failure(1, timeout(vec![3]))], &[0, 3, 4]),
            "rank 4, last heard of at: does not answer: its process has ended; \
             rank 3, last heard of at: does not answer; \
             rank 0, last heard of at: did not answer in 6.2s, and may be alive; \
             rank 1 at: waited 3.0s for rank 3 in a transfer"
        );
        // All members had joined, so that the one that was waited for has no name.
        assert_eq!(
            report(vec![failure(1, timeout(vec![]))], &[0, 4]),
            "rank 4, last heard of at: does not answer: its process has ended; rank 0, last heard of at: does not answer; \
             rank 1 at: waited 3.0s for an exchange that all members have joined in a transfer"
        );
    }
}
