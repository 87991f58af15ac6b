//! This process's ranks: starts their threads, sends them commands, and stops them together with those of other processes.

use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use pipezero_comm::CommError;
use pipezero_comm::memory::Ledgers;
use pipezero_comm::world::{RanksOnDevice, RanksOnHosts, World};
use pipezero_plan::Plan;

use super::command::{Answer, Command, Reply};
use super::error::{EngineError, Report};
use super::failures::{
    GRACE_OF_PROCESSES, TimeForReports, add_reported, after_suspension, failure_of, waited_for,
};
use super::worker::Worker;
use crate::data::BatchSource;
use crate::executor::{Cause, RankFailure, RankOutcome};

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
    /// No wait between ranks is longer.
    timeout: Duration,
    /// The longest time for which this process was suspended while its ranks carried out the last command.
    suspended: Duration,
    /// Whether the ranks hold memory for commands between steps: on a device that several of them share each would else find that of the
    /// others taken.
    hold_reserves: bool,
    stopped: bool,
}

/// A stop ends every wait, so only a rank that computes replies later: after its current unit.
const GRACE: Duration = Duration::from_secs(10);
/// The same where others have waited for it in vain, for as long as any wait may last.
const GRACE_OF_WAITED_FOR: Duration = Duration::from_secs(1);

/// If a process was suspended for this long, and for half a time-out, it is what others have waited for.
const SUSPENSION_MIN: Duration = Duration::from_secs(1);

/// How long the engine waits for an answer before it asks whether another process has stopped.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

impl Ranks {
    /// Starts every local rank and returns when each has allocated what it will hold.
    pub(super) fn start(
        plan: &Arc<Plan>,
        source: &Arc<dyn BatchSource>,
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
            timeout: plan.run().comm.timeout,
            suspended: Duration::ZERO,
            hold_reserves: false,
            stopped: false,
        };
        tracing::debug!(?local, threads = plan.run().threads, purpose = ?plan.run().purpose, "starting ranks");
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
        self.suspended = Duration::ZERO;
        for rank in &self.commands {
            // A rank whose thread has ended has already answered with its failure.
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

    /// How all ranks lie on hosts, where they are processes.
    pub(super) fn on_hosts(&self) -> Option<RanksOnHosts> {
        self.world.on_hosts()
    }

    /// Whether all ranks are local.
    pub(super) fn are_all(&self) -> bool {
        self.world.has_all_ranks()
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
    fn next_answer(&mut self, deadline: Option<Instant>) -> Option<(usize, Reply)> {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        loop {
            let asked = Instant::now();
            let answer = self.answers.recv_timeout(BETWEEN_QUESTIONS);
            // A process that was not suspended returns from the wait on time.
            self.suspended = self.suspended.max(asked.elapsed().saturating_sub(BETWEEN_QUESTIONS));
            match answer {
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
        if !self.are_all() && self.suspended >= SUSPENSION_MIN.max(self.timeout / 2) {
            let time = self.suspended;
            failures = failures.into_iter().map(|failure| after_suspension(failure, time)).collect();
        }
        add_reported(&*self.world, TimeForReports::after(self.grace, self.timeout), &mut failures);
        EngineError::Stopped(Report::new(failures))
    }

    /// How long these ranks have to answer after a stop. One that only computes is not called silent before its unit can have ended, but one
    /// that others have waited for in vain is.
    fn grace_of(&self, busy: &[usize], failures: &[RankFailure]) -> Duration {
        let waited_for = waited_for(failures);
        let were_all = busy.iter().all(|rank| waited_for.contains(rank));
        if were_all { self.grace.min(GRACE_OF_WAITED_FOR) } else { self.grace }
    }

    fn failure(&self, rank: usize, cause: Cause) -> RankFailure {
        failure_of(&*self.world, rank, cause)
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
