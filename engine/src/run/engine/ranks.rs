//! This process's ranks: starts their threads, sends them commands, and stops them together with those of other processes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::command::{Answer, Command, Reply};
use super::error::{EngineError, Report};
use super::worker::Worker;
use crate::plan::Plan;
use crate::run::comm::CommError;
use crate::run::data::BatchSource;
use crate::run::executor::{Cause, CauseKind, RankFailure, RankOutcome, ReportedFailure};
use crate::run::memory::Ledgers;
use crate::run::world::{RanksOnDevice, World};
use pipezero_partition::Purpose;

/// How long threads of a run that failed are waited for.
const LONGEST_FAREWELL: Duration = Duration::from_secs(1);

/// One thread per local rank.
#[derive(Debug)]
pub(super) struct Ranks {
    /// `[rank - first rank]`
    commands: Vec<Sender<Command>>,
    answers: Receiver<(usize, Reply)>,
    threads: Vec<JoinHandle<()>>,
    /// `[rank - first rank]`
    ledgers: Vec<Arc<Ledgers>>,
    world: Arc<dyn World>,
    /// How long a rank may take to notice that the others have stopped.
    grace: Duration,
    /// How long processes may take to say so that are not frozen, beside twice that.
    patience: Duration,
    /// No wait between ranks is longer.
    timeout: Duration,
    /// Whether the ranks hold memory for commands between steps: on a device that several of them share each would else find that of the
    /// others taken.
    hold_reserves: bool,
    stopped: bool,
}

/// A stop ends every wait, so only a rank that computes replies later: after its current unit.
const GRACE: Duration = Duration::from_secs(10);
/// The same where others have waited for it in vain, for as long as any wait may last.
const GRACE_OF_WAITED_FOR: Duration = Duration::from_secs(1);
/// The same where ranks are processes: one that is frozen never answers, and the launcher ends those that are left soon after the first.
const GRACE_OF_PROCESSES: Duration = Duration::from_millis(600);
/// How long other processes may take whose host has much else to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the engine waits for an answer before it asks whether another process has stopped.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

impl Ranks {
    /// Starts every local rank and returns when each has allocated what it will hold.
    pub(super) fn start(
        plan: &Arc<Plan>,
        source: &Arc<dyn BatchSource>,
        purpose: Purpose,
        world: Arc<dyn World>,
    ) -> Result<Self, EngineError> {
        let local = world.local_ranks();
        let grace = if local.len() == world.size() { GRACE } else { GRACE_OF_PROCESSES };
        let (answer, answers) = unbounded();
        let mut ranks = Self {
            commands: Vec::new(),
            answers,
            threads: Vec::new(),
            ledgers: local.clone().map(|_| Arc::default()).collect(),
            world,
            grace: grace.min(plan.run().comm.timeout),
            patience: PATIENCE.min(plan.run().comm.timeout),
            timeout: plan.run().comm.timeout,
            hold_reserves: false,
            stopped: false,
        };
        tracing::debug!(?local, threads = plan.run().threads, ?purpose, "starting ranks");
        for rank in local {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(plan.run().threads)
                .thread_name(move |thread| format!("rank-{rank}.{thread}"))
                .build()
                .map_err(|error| EngineError::Start { rank, reason: error.to_string() })?;
            let (command, commands) = unbounded();
            ranks.commands.push(command);
            let worker = Worker {
                rank,
                plan: Arc::clone(plan),
                source: Arc::clone(source),
                purpose,
                ledgers: Arc::clone(ranks.ledgers(rank)),
                world: Arc::clone(&ranks.world),
                commands,
                answer: answer.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("rank-{rank}"))
                .spawn(move || pool.install(|| worker.run()))
                .map_err(|error| EngineError::Start { rank, reason: error.to_string() })?;
            ranks.threads.push(thread);
        }
        ranks.collect(None)?;
        Ok(ranks)
    }

    /// Asks every local rank and returns their answers, by rank.
    pub(super) fn ask(&mut self, command: &Command) -> Result<Vec<Answer>, EngineError> {
        if self.stopped {
            return Err(EngineError::AlreadyStopped);
        }
        match command {
            Command::Train(_) => self.hold_reserves = true,
            _ if std::mem::take(&mut self.hold_reserves) => drop(self.ask(&Command::Release)?),
            _ => {}
        }
        for rank in &self.commands {
            // A rank that is gone has already answered with its failure.
            let _ = rank.send(command.clone());
        }
        self.collect(command.is_program().then_some(self.timeout))
    }

    /// Asks every local rank to run a program.
    pub(super) fn ask_for_outcomes(&mut self, command: &Command) -> Result<Vec<RankOutcome>, EngineError> {
        let outcome = |answer| match answer {
            Answer::Outcome(outcome) => Some(*outcome),
            _ => None,
        };
        Ok(self.ask(command)?.into_iter().filter_map(outcome).collect())
    }

    /// Asks every local rank for values that rank 0 gets; empty in other processes.
    pub(super) fn ask_for_values(&mut self, command: &Command) -> Result<Vec<f32>, EngineError> {
        let values = |answer| match answer {
            Answer::Values(values) => Some(values),
            _ => None,
        };
        Ok(self.ask(command)?.into_iter().find_map(values).unwrap_or_default())
    }

    /// Does something with the other processes.
    pub(super) fn together<R>(
        &mut self,
        exchange: impl FnOnce(&dyn World) -> Result<R, CommError>,
    ) -> Result<R, EngineError> {
        if self.stopped {
            return Err(EngineError::AlreadyStopped);
        }
        exchange(&*self.world).map_err(|error| {
            let rank = self.local().start;
            let position = self.world.positions().get(rank);
            let failure = RankFailure { rank, position, cause: Cause::Comm(error) };
            self.stop(Some(failure), Vec::new())
        })
    }

    /// The local ranks.
    pub(super) fn local(&self) -> Range<usize> {
        self.world.local_ranks()
    }

    /// What the local ranks compute on.
    pub(super) fn devices(&self) -> Vec<RanksOnDevice> {
        self.world.devices()
    }

    /// Whether all ranks are local.
    pub(super) fn are_all(&self) -> bool {
        self.local().len() == self.world.size()
    }

    /// What a local rank holds.
    pub(super) fn ledgers(&self, rank: usize) -> &Arc<Ledgers> {
        &self.ledgers[rank - self.local().start]
    }

    /// The answers of all local ranks. Where they depend on each other, no answer comes later than so long after the one before it: a rank that
    /// stalls where no other waits for it any more is noticed here alone.
    fn collect(&mut self, longest: Option<Duration>) -> Result<Vec<Answer>, EngineError> {
        let local = self.local();
        let mut answers: Vec<Option<Answer>> = local.clone().map(|_| None).collect();
        let mut deadline = None;
        for _ in local.clone() {
            match self.next_answer(deadline) {
                Some((rank, Ok(answer))) => {
                    answers[rank - local.start] = Some(answer);
                    deadline = longest.and_then(|longest| Instant::now().checked_add(longest));
                }
                failed => {
                    let failure = failed.and_then(|(_, answer)| answer.err()).map(|failure| *failure);
                    let first = failure.as_ref().map(|failure| failure.rank);
                    let is_busy =
                        |&rank: &usize| Some(rank) != first && answers[rank - local.start].is_none();
                    let busy = local.clone().filter(is_busy).collect();
                    if failure.is_none() && !self.world.is_stopped() {
                        // They are late, and have had their time.
                        self.grace = self.grace.min(GRACE_OF_WAITED_FOR);
                    }
                    return Err(self.stop(failure, busy));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// The next answer of a local rank; `None` after the deadline, and once another process has stopped the world, which ranks that wait for
    /// nothing do not hear of.
    fn next_answer(&self, deadline: Option<Instant>) -> Option<(usize, Reply)> {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        loop {
            match self.answers.recv_timeout(BETWEEN_QUESTIONS) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if !is_late() && !self.world.is_stopped() => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// A rank has failed, here or in another process: stops all others, in every process, and collects where each of them was. Of the
    /// local ones, those that are `busy` carry a command out and have not answered yet.
    fn stop(&mut self, first: Option<RankFailure>, mut busy: Vec<usize>) -> EngineError {
        self.stopped = true;
        tracing::debug!(first = first.as_ref().map(tracing::field::display), "stopping all ranks");
        self.world.stop();
        let mut failures: Vec<RankFailure> = first.into_iter().collect();
        let start = Instant::now();
        while !busy.is_empty() {
            match self.answers.recv_deadline(start + self.grace_of(&busy, &failures)) {
                Ok((rank, answer)) => {
                    busy.retain(|&other| other != rank);
                    failures.extend(answer.err().map(|failure| *failure));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        failures.extend(busy.into_iter().map(|rank| self.failure(rank, Cause::Stalled)));
        self.add_reported(&mut failures);
        EngineError::Stopped(Report::new(failures))
    }

    /// How long these ranks have to answer after a stop. One that only computes is not called silent before its unit can have ended, but one
    /// that others have waited for in vain is.
    fn grace_of(&self, busy: &[usize], failures: &[RankFailure]) -> Duration {
        let waited_for = waited_for(failures);
        let were_all = busy.iter().all(|rank| waited_for.contains(rank));
        if were_all { self.grace.min(GRACE_OF_WAITED_FOR) } else { self.grace }
    }

    /// Exchanges failures with the other processes. A process that fails later has as long as this one to collect them.
    fn add_reported(&self, failures: &mut Vec<RankFailure>) {
        let own: Vec<ReportedFailure> = failures.iter().map(ReportedFailure::from).collect();
        let own = serde_json::to_vec(&own).expect("failures have string keys and finite depth");
        let mut heard = self.reported(own.clone(), 2 * self.grace);
        let known = failures.iter().chain(heard.iter().flat_map(|(_, failures)| failures.iter().flatten()));
        let is_waited_for = known.into_iter().any(|failure| failure.cause.kind() == CauseKind::TimedOut);
        // Who has been waited for in vain is frozen. Where nobody has, those that have not answered are only slow.
        if !is_waited_for && heard.iter().any(|(_, failures)| failures.is_none()) {
            heard = self.reported(own, self.patience);
        }
        for (ranks, reported) in heard {
            match reported {
                Some(reported) => failures.extend(reported),
                None => failures.extend(ranks.map(|rank| self.failure(rank, Cause::Silent))),
            }
        }
    }

    /// What the other processes say of their ranks' failures in this time.
    fn reported(&self, own: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<RankFailure>>)> {
        let others =
            self.world.exchange_failures(own, time).into_iter().filter(|(ranks, _)| *ranks != self.local());
        let read = |report: Vec<u8>| serde_json::from_slice::<Vec<ReportedFailure>>(&report).ok();
        let failures = |report| Some(read(report)?.into_iter().map(RankFailure::from).collect());
        others.map(|(ranks, report)| (ranks, report.and_then(failures))).collect()
    }

    fn failure(&self, rank: usize, cause: Cause) -> RankFailure {
        RankFailure { rank, position: self.world.positions().get(rank), cause }
    }
}

/// The ranks for which others have waited until their time was up, and those for which these waited themselves, and so on.
fn waited_for(failures: &[RankFailure]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    loop {
        let missing = failures.iter().flat_map(|RankFailure { rank, cause, .. }| match cause {
            Cause::Comm(CommError::Timeout { missing, .. }) => &missing[..],
            Cause::Comm(CommError::Interrupted { missing, .. }) if found.contains(rank) => missing,
            _ => &[],
        });
        let missing: BTreeSet<usize> = missing.copied().collect();
        if missing == found {
            return found;
        }
        found = missing;
    }
}

impl Drop for Ranks {
    /// Ends the threads. After a failure it does not wait for them for long, since one of them may never end; but for a while, since a process that
    /// ends while they free a device's memory takes the driver away from them.
    fn drop(&mut self) {
        self.commands.clear();
        let start = Instant::now();
        for thread in self.threads.drain(..) {
            while self.stopped && !thread.is_finished() && start.elapsed() < LONGEST_FAREWELL {
                thread::sleep(Duration::from_millis(1));
            }
            if !self.stopped || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::world::Position;

    #[test]
    fn who_was_waited_for_is_found_along_the_waits() {
        let failure = |rank, cause| RankFailure { rank, position: Position::Idle, cause: Cause::Comm(cause) };
        let operation = || "a transfer".to_owned();
        let timeout =
            |missing| CommError::Timeout { waited: Duration::ZERO, operation: operation(), missing };
        let interrupted = |missing| CommError::Interrupted { operation: operation(), missing };
        let failures = [
            failure(3, interrupted(vec![5])),
            failure(5, interrupted(vec![4])),
            failure(1, timeout(vec![3])),
            // Nobody has waited for rank 0, so that it may just have begun to wait for rank 2.
            failure(0, interrupted(vec![2])),
        ];
        assert_eq!(waited_for(&failures), BTreeSet::from([3, 4, 5]));
        assert_eq!(waited_for(&failures[3..]), BTreeSet::new());
        // Ranks that wait for each other.
        let circle = [failure(0, timeout(vec![1])), failure(1, interrupted(vec![0]))];
        assert_eq!(waited_for(&circle), BTreeSet::from([0, 1]));
    }
}
