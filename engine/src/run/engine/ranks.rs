//! All ranks' threads: starts them, sends them commands, and stops them together.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::command::{Answer, Command, Reply};
use super::error::{EngineError, Report};
use super::worker::Worker;
use crate::plan::Plan;
use crate::run::comm::ThreadWorld;
use crate::run::data::BatchSource;
use crate::run::executor::{Cause, Positions, RankFailure};
use crate::run::memory::Ledger;
use pipezero_models::Device;
use pipezero_partition::Purpose;

/// One thread per rank of the grid.
#[derive(Debug)]
pub(super) struct Ranks {
    commands: Vec<Sender<Command>>,
    answers: Receiver<(usize, Reply)>,
    threads: Vec<JoinHandle<()>>,
    ledgers: Vec<Arc<Ledger>>,
    positions: Arc<Positions>,
    world: Arc<ThreadWorld>,
    /// How long a rank may take to notice that the others have stopped.
    grace: Duration,
    stopped: bool,
}

/// A stop ends every wait, so only a rank that computes replies later: after its current unit.
const GRACE: Duration = Duration::from_secs(10);

impl Ranks {
    /// Starts every rank and returns when each has allocated what it will hold.
    pub(super) fn start(
        plan: &Arc<Plan>,
        source: &Arc<dyn BatchSource>,
        purpose: Purpose,
        device: Arc<dyn Device>,
    ) -> Result<Self, EngineError> {
        let num_ranks = plan.grid().world_size();
        let timeout = plan.run().comm.timeout;
        let (answer, answers) = unbounded();
        let mut ranks = Self {
            commands: Vec::new(),
            answers,
            threads: Vec::new(),
            ledgers: (0..num_ranks).map(|_| Arc::default()).collect(),
            positions: Arc::new(Positions::new(num_ranks)),
            world: ThreadWorld::on(device, num_ranks, timeout, plan.run().comm.links),
            grace: GRACE.min(timeout),
            stopped: false,
        };
        tracing::debug!(num_ranks, threads = plan.run().threads, ?purpose, "starting ranks");
        for rank in 0..num_ranks {
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
                ledger: Arc::clone(&ranks.ledgers[rank]),
                positions: Arc::clone(&ranks.positions),
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
        ranks.collect()?;
        Ok(ranks)
    }

    /// Asks every rank and returns their answers, by rank.
    pub(super) fn ask(&mut self, command: &Command) -> Result<Vec<Answer>, EngineError> {
        if self.stopped {
            return Err(EngineError::AlreadyStopped);
        }
        for rank in &self.commands {
            // A rank that is gone has already answered with its failure.
            let _ = rank.send(command.clone());
        }
        self.collect()
    }

    /// Asks every rank for values that one of them has.
    pub(super) fn ask_for_values(&mut self, command: &Command) -> Result<Vec<f32>, EngineError> {
        let values = self.ask(command)?.into_iter().find_map(|answer| match answer {
            Answer::Values(values) => Some(values),
            Answer::Done | Answer::Outcome(_) => None,
        });
        Ok(values.expect("the one rank that has the values answers with them"))
    }

    pub(super) fn ledgers(&self) -> &[Arc<Ledger>] {
        &self.ledgers
    }

    fn collect(&mut self) -> Result<Vec<Answer>, EngineError> {
        let mut answers: Vec<Option<Answer>> = (0..self.commands.len()).map(|_| None).collect();
        for _ in 0..answers.len() {
            match self.answers.recv() {
                Ok((rank, Ok(answer))) => answers[rank] = Some(answer),
                Ok((_, Err(failure))) => return Err(self.stop(*failure, &answers)),
                Err(_) => return Err(EngineError::AlreadyStopped),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// One rank has failed: stops all others and collects where each of them was.
    fn stop(&mut self, first: RankFailure, answered: &[Option<Answer>]) -> EngineError {
        self.stopped = true;
        tracing::debug!(rank = first.rank, cause = %first.cause, "stopping all ranks");
        self.world.stop();
        let mut silent: Vec<usize> = (0..answered.len()).filter(|&rank| answered[rank].is_none()).collect();
        silent.retain(|&rank| rank != first.rank);
        let mut failures = vec![first];
        let deadline = Instant::now() + self.grace;
        while !silent.is_empty() {
            match self.answers.recv_deadline(deadline) {
                Ok((rank, answer)) => {
                    silent.retain(|&other| other != rank);
                    failures.extend(answer.err().map(|failure| *failure));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for rank in silent {
            failures.push(RankFailure { rank, position: self.positions.get(rank), cause: Cause::Stalled });
        }
        EngineError::Stopped(Report::new(failures))
    }
}

impl Drop for Ranks {
    /// Ends the threads. After a failure it does not wait for them, since one of them may never end.
    fn drop(&mut self) {
        self.commands.clear();
        if !self.stopped {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}
